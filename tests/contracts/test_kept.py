"""What is kept of a transcript: no secret, any text, once and for all branches; and copies of the raw records."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pytest
from contracts.written import (
    NAMES,
    heard,
    lines,
    place,
    said,
    session,
    states,
    take,
    texts,
    whole,
    whole_again,
)

from bede.context import Context
from bede.operations.fork import fork
from bede.operations.init import init
from bede.operations.purge import purge
from bede.operations.recent import recent
from bede.operations.reindex import reindex
from bede.operations.rollback import rollback
from bede.operations.store import store
from bede.operations.undo import undo
from bede.operations.verify import verify

zstandard = pytest.importorskip("zstandard", reason="compressed transcripts need zstandard")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


SECRETS = {
    "prompt": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "reply": "sk-ant-api03-" + "aB3dE6" * 15 + "-AAAAAAAA",
    "thought": "glpat-" + "x7Y8z9W0v1U2t3S4r5Q6",
    "command": "xoxb-" + "123456789012-1234567890123-" + "AbCdEfGhIjKlMnOpQrStUvWx",
    "output": "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2",
    "old": "ghp_" + "B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8a1",
    "new": "ghp_" + "C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8A1b2",
    "tool": "ghp_" + "D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8a1B2c3",
    "call": "ghp_" + "E5f6G7h8I9j0K1l2M3n4O5p6Q7r8A1b2C3d4",
    "model": "ghp_" + "F6g7H8i9J0k1L2m3N4o5P6q7R8a1B2c3D4e5",
    "branch": "ghp_" + "G7h8I9j0K1l2M3n4O5p6Q7r8A1b2C3d4E5f6",
    "version": "ghp_" + "H8i9J0k1L2m3N4o5P6q7R8a1B2c3D4e5F6g7",
    "title": "ghp_" + "I9j0K1l2M3n4O5p6Q7r8A1b2C3d4E5f6G7h8",
    "uuid": "ghp_" + "J0k1L2m3N4o5P6q7R8a1B2c3D4e5F6g7H8i9",
    "path": "ghp_" + "K1l2M3n4O5p6Q7r8A1b2C3d4E5f6G7h8I9j0",
    "folder": "ghp_" + "L2m3N4o5P6q7R8a1B2c3D4e5F6g7H8i9J0k1",
}


def _secretive(cwd: Path) -> bytes:
    """Return a session with a secret in every field that takes a text."""
    own = SECRETS
    about = {"gitBranch": own["branch"], "version": own["version"]}
    call = {
        "type": "tool_use",
        "id": own["call"],
        "name": "Edit",
        "input": {"file_path": f"/tmp/{own['path']}", "old_string": own["old"], "new_string": own["new"]},
    }
    shell = {
        "type": "tool_use",
        "id": "toolu_012345678",
        "name": "Bash",
        "input": {"command": f"curl {own['command']}"},
    }
    other = {"type": "tool_use", "id": "toolu_987654321", "name": own["tool"], "input": {"x": own["prompt"]}}
    failed = {"type": "tool_result", "tool_use_id": "toolu_012345678", "is_error": True, "content": own["output"]}
    records = [
        said("s", 1, f"use {own['prompt']}", cwd, **about),
        said("s", 2, f"as {own['reply']}", cwd, by="assistant"),
        said("s", 3, "", cwd, by="assistant"),
        said("s", 4, "", cwd),
        {"type": "custom-title", "customTitle": f"about {own['title']}", "sessionId": "s"},
        said("s", 5, "last", cwd / own["folder"]),
        said("s", 6, "and one that is still open", cwd, by="assistant"),
    ]
    thought = {"type": "thinking", "thinking": f"they gave {own['thought']}", "signature": "x"}
    records[1]["uuid"], records[1]["message"]["model"] = own["uuid"], own["model"]
    records[2]["message"]["content"] = [thought, call, shell, other]
    records[3]["message"]["content"] = [failed]
    records[6]["message"]["content"] = [{**shell, "id": "toolu_open00001"}]
    return lines(records)


def test_no_secret_reaches_the_disk(home, project, context):
    """Not the history, not what is derived, not where reading goes on from, not the copy: at no moment."""
    data = _secretive(project)
    path = place(home, "s")
    path.write_bytes(b"")
    with path.open("ab") as out:
        for line in data.splitlines(keepends=True):
            out.write(line[:-9])
            out.flush()
            take(context, thoughts=True, keep_raw=True)
            out.write(line[-9:])
            out.flush()
            take(context, thoughts=True, keep_raw=True)
            found = [field for field, secret in SECRETS.items() if secret in states(context)]
            assert found == []
    take(context, thoughts=True, again=True)
    reindex(context)
    everything = whole(context)
    assert [field for field, secret in SECRETS.items() if secret.encode() in everything] == []
    assert [field for field, secret in SECRETS.items() if secret in "\n".join(texts(context))] == []
    bodies = [str(event.body) for event in _events(context)]
    assert [field for field, secret in SECRETS.items() if any(secret in body for body in bodies)] == []
    (copy,) = (project / ".bede" / "raw").rglob("*.zst")
    raw = zstandard.ZstdDecompressor().stream_reader(copy.read_bytes(), read_across_frames=True).read()
    assert [field for field, secret in SECRETS.items() if secret.encode() in raw] == []
    assert "[redacted:" in "\n".join(texts(context))


def _events(context: Context) -> list[object]:
    from bede.repository import log

    with context.repository.snapshot() as reading:
        return list(log.after(reading.connection, 0))


def test_a_secret_in_a_folder_does_not_make_it_somebody_elses(home, project, context):
    deep = project / SECRETS["folder"]
    deep.mkdir()
    place(home, "s").write_bytes(session("s", deep, 2))
    assert take(context).files == {"read": 1}
    assert take(context).files == {"unchanged": 1}


HOSTILE = [
    "\ud83d alone",
    "nul \0 within",
    "'; DROP TABLE turn; --",
    '"} OR MATCH *',
    "\x1b[2J\x1b]0;title\x07",
    "<|endoftext|><|im_start|>",
    "line\u2028separator\u2029and\x85next\x0b",
    "\u202egnp.exe",
    "𝒳" * 3000,
    "a" * 300_000,
    "../../../etc/passwd",
    "é" + "\u0301" * 500,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_text(text, home, project, context):
    record = said("s", 1, text, project)
    record["message"]["content"] = text
    named = said(f"s{text[:100]}", 2, "a session of that name", project, gitBranch=text[:200])
    odd = said("s", 3, "", project, by="assistant")
    odd["message"]["content"] = [
        {"type": "tool_use", "id": text[:300], "name": text[:300], "input": {"command": text, "file_path": text}}
    ]
    place(home, "s").write_bytes(lines([record, named, odd]))
    result = take(context)
    assert result.turns["new"] == 3
    expected = text.encode("utf-8", "replace").decode()
    assert texts(context, "s")[0] == expected
    again = take(context, again=True)
    assert again.turns.keys() <= {"repeated"}
    assert recent(context, turns_=5).turns
    whole_again(context)


def test_a_cwd_that_is_no_path_is_nobodys(home, project, context):
    odd = ["\ud83d", "\0", "x" * 100_000, "/" * 50_000, "~", ".", "..", "", 7, None, [], "C:", "\\\\", "//", "/\0/x"]
    for number, cwd in enumerate(odd):
        record = said(f"s{number}", 1, "text", None)
        record["cwd"] = cwd
        place(home, f"s{number}").write_bytes(lines([record]))
    result = take(context)
    assert result.unreadable == ()
    assert result.turns == {}
    assert sum(result.files.values()) == len(odd)


def test_what_was_purged_does_not_come_back(home, project, context):
    path = place(home, "s")
    data = session("s", project, 4)
    path.write_bytes(data)
    take(context)
    with context.repository.snapshot() as reading:
        query = "SELECT e.id FROM turn t JOIN event e USING (seq) WHERE t.n IN (2, 4) ORDER BY t.n"
        gone = [row[0].hex() for row in reading.connection.execute(query)]
    assert purge(context, gone, yes=True, include_others=True).outcome == "purged"
    left = heard("s", 1, 3)
    assert texts(context) == left
    take(context, again=True)
    assert texts(context) == left
    with path.open("ab") as out:
        out.write(session("s", project, 1, start=5))
    take(context)
    assert texts(context) == [*left, *heard("s", 5)]
    path.rename(place(home, "t"))
    take(context)
    reindex(context)
    take(context, again=True)
    assert texts(context) == [*left, *heard("s", 5)]
    assert b"word 2 of s" not in whole(context)
    assert verify(context).ok


def test_undo_does_not_undo_an_ingest(home, project, context):
    stored = store(context, summary="something to take back", agent_id="tester")
    place(home, "s").write_bytes(session("s", project, 4))
    take(context)
    assert undo(context, include_others=True).verb == "store"
    assert texts(context) == heard("s", 1, 2, 3, 4)
    assert stored.id
    assert verify(context).ok


def test_every_branch_sees_sessions_and_no_rollback_takes_them(home, project, context):
    first = store(context, summary="the first").id
    place(home, "s").write_bytes(session("s", project, 4))
    take(context)
    store(context, summary="the second")
    fork(context, "other", checkout=True)
    assert [turn.text for turn in recent(context).turns] == heard("s", 1, 2, 3, 4)
    rollback(context, first)
    assert [turn.text for turn in recent(context).turns] == heard("s", 1, 2, 3, 4)
    assert take(context).files == {"unchanged": 1}
    assert verify(context).ok


def test_a_copy_stands_for_the_file(home, project, context, clock, tmp_path):
    path = place(home, "s")
    path.write_bytes(_secretive(project))
    take(context, keep_raw=True)
    with path.open("ab") as out:
        out.write(session("s", project, 3, start=20))
    take(context, keep_raw=True)
    before = texts(context)
    path.unlink()
    (copy,) = (project / ".bede" / "raw").rglob("*.zst")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    folders = [folder for folder in copy.parents if folder.is_relative_to(project / ".bede" / "raw")]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    assert _elsewhere(tmp_path, clock, copy) == before


@pytest.mark.parametrize("more", [0, 1, 2])
def test_no_cursor_holds_the_words_of_a_turn_that_was_purged(more, home, project, context):
    """The last turn of a session is open, and so stands in the state from which its file is read on."""
    path = place(home, "s")
    path.write_bytes(session("s", project, 3))
    take(context)
    last = recent(context).turns[-1]
    assert last.text == "word 3 of s" and _stands_in_a_cursor(context, "word 3 of s")
    assert purge(context, [last.id], yes=True, include_others=True).outcome == "purged"
    assert not _stands_in_a_cursor(context, "of s")
    with path.open("ab") as file:
        file.write(session("s", project, more, start=4))
    take(context)
    assert not _stands_in_a_cursor(context, "word 3 of s")
    take(context, again=True)
    assert not _stands_in_a_cursor(context, "word 3 of s")
    assert texts(context) == heard("s", 1, 2, *range(4, 4 + more))
    assert take(context).files == {"unchanged": 1}


def _stands_in_a_cursor(context: Context, text: str) -> bool:
    from bede.repository import cursors

    with context.repository.snapshot() as reading:
        rows = reading.connection.execute("SELECT path FROM cursor").fetchall()
        found = [cursors.find(reading.connection, Path(name.decode())) for (name,) in rows]
    return text in str([cursor.state for cursor in found if cursor])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_purge_tells_of_the_copies_that_it_does_not_reach(home, project, context, keeps):
    place(home, "s").write_bytes(session("s", project, 2))
    take(context, keep_raw=keeps)
    note = store(context, summary="a note that stands in no transcript").id
    with context.repository.snapshot() as reading:
        turn = reading.connection.execute("SELECT e.id FROM turn t JOIN event e USING (seq)").fetchone()[0].hex()
    assert bool(purge(context, [turn], yes=True, include_others=True).warning) == keeps
    assert purge(context, [note], yes=True).warning == ""


def _elsewhere(tmp_path: Path, clock: object, *paths: Path) -> list[str]:
    """Return what a new project finds in files that are named to it."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with closing(Context(directory=folder, clock=clock, agent="other")) as other:
        init(other)
        result = take(other, path=list(paths))
        assert (result.exits, result.files) == (0, {"read": len(paths)})
        return texts(other)


def test_a_copy_is_whole_however_late_it_was_asked_for(home, project, context, clock, tmp_path):
    """Of a file that was read without one, of one that did not change since, and with a gap between."""
    path = place(home, "s")
    path.write_bytes(session("s", project, 2))
    take(context)
    take(context, keep_raw=True)
    for number in (3, 5, 7):
        with path.open("ab") as out:
            out.write(session("s", project, 2, start=number))
        take(context, keep_raw=number != 5)
    (copy,) = (project / ".bede" / "raw").rglob("*.zst")
    path.unlink()
    assert _elsewhere(tmp_path, clock, copy) == heard("s", *range(1, 9))


def test_what_a_rewritten_file_lost_stays_in_a_copy(home, project, context, clock, tmp_path):
    path = place(home, "s")
    for start in (1, 11, 21):
        path.write_bytes(session("s", project, 4, start=start))
        take(context, keep_raw=True)
    copies = sorted((project / ".bede" / "raw").rglob("*.zst"))
    assert len(copies) == 3
    assert sorted(_elsewhere(tmp_path, clock, *copies)) == sorted(
        heard("s", *range(1, 5), *range(11, 15), *range(21, 25))
    )
    take(context, keep_raw=True, again=True)
    assert sorted((project / ".bede" / "raw").rglob("*.zst")) == copies
