"""Files as they are met again: nothing is lost, nothing is there twice, nothing breaks."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from contracts.written import (
    NAMES,
    codex,
    heard,
    identity,
    lines,
    names,
    place,
    said,
    session,
    states,
    take,
    texts,
    whole_again,
)

from bede.intake import escrow, files, sifting
from bede.repository import cursors

zstandard = pytest.importorskip("zstandard", reason="compressed transcripts need zstandard")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_a_file_is_read_once_and_then_only_on(home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    first = take(context)
    assert (first.files, first.turns, first.sessions) == ({"read": 1}, {"new": 4}, 1)
    again = take(context)
    assert (again.files, again.turns) == ({"unchanged": 1}, {})
    with path.open("ab") as out:
        out.write(session("s", project, 2, start=5))
    more = take(context)
    assert more.turns.get("new") == 2
    assert more.records == 2
    assert texts(context) == heard("s", *range(1, 7))
    assert take(context).turns == {}
    whole_again(context)


@pytest.mark.parametrize("where", ["renamed", "moved", "archived", "linked"])
def test_a_file_that_goes_elsewhere_is_the_same_one(where, home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    take(context)
    other = place(home, "s" if where == "moved" else "t", "-work" if where == "renamed" else "-other")
    if where == "archived":
        shutil.copy(path, other)
    elif where == "linked":
        other.symlink_to(path)
    else:
        path.rename(other)
    with other.open("ab") as out:
        out.write(session("s", project, 2, start=5))
    result = take(context)
    assert result.turns["new"] == 2
    assert texts(context) == heard("s", *range(1, 7))
    whole_again(context)


def test_a_rotated_file_is_two(home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    take(context)
    path.rename(place(home, "s.1"))
    path.write_bytes(session("t", project, 6))
    assert take(context).turns["new"] == 6
    assert texts(context, "s") == heard("s", 1, 2, 3, 4)
    assert texts(context, "t") == heard("t", *range(1, 7))
    whole_again(context)


@pytest.mark.parametrize("size", [0, 1, 500, 700, 1500])
def test_what_a_truncated_file_lost_stays(size, home, project, context):
    path = place(home, "s")
    data = session("s", project, 4)
    path.write_bytes(data)
    take(context)
    path.write_bytes(data[:size])
    take(context)
    assert texts(context) == heard("s", 1, 2, 3, 4)
    path.write_bytes(data[:size] + data[size:])
    take(context)
    assert texts(context) == heard("s", 1, 2, 3, 4)
    path.write_bytes(data + session("s", project, 2, start=5))
    assert take(context).turns["new"] == 2
    assert texts(context) == heard("s", *range(1, 7))
    whole_again(context)


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_file_that_is_cut_and_grows_with_something_else(count, home, project, context):
    """Whether the new text is shorter, as long or longer than what was read: all of both is known."""
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    take(context)
    path.write_bytes(session("s", project, count, start=21))
    assert take(context).turns["new"] == count
    assert texts(context) == heard("s", 1, 2, 3, 4, *range(21, 21 + count))
    whole_again(context)


def test_rewritten_with_the_same_size_and_time(home, project, context):
    """Whoever writes over a file and sets its time back is seen as well."""
    path = place(home, "s")
    path.write_bytes(session("s", project, 4, start=2))
    before = path.stat()
    take(context)
    new = session("s", project, 4, start=6)
    assert len(new) == before.st_size
    path.write_bytes(new)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    take(context)
    assert texts(context) == heard("s", *range(2, 10))


def test_rewritten_in_the_middle_alone(home, project, context):
    """Both ends are as they were, and the length is: what stands between was written over."""
    path = place(home, "s")
    data = session("s", project, 60)
    path.write_bytes(data)
    take(context)
    old, new = lines([said("s", 31, "word 31 of s", project)]), lines([said("s", 31, "wort 31 of s", project)])
    assert data.count(old) == 1
    assert 4096 < data.index(old) < len(data) - 2 * 4096
    path.write_bytes(data.replace(old, new))
    take(context)
    assert "wort 31 of s" in texts(context)


def test_a_longer_file_in_its_place_is_read_from_its_beginning(home, project, context):
    """As programs save: written beside, then renamed. Both ends of what was read are the same as before."""
    path = place(home, "s")
    data = session("s", project, 60)
    path.write_bytes(data)
    take(context)
    old, new = lines([said("s", 31, "word 31 of s", project)]), lines([said("s", 31, "wort 31 of s", project)])
    assert data.count(old) == 1
    assert 4096 < data.index(old) < len(data) - 2 * 4096
    beside = path.with_suffix(".new")
    beside.write_bytes(data.replace(old, new) + session("s", project, 61)[len(data) :])
    beside.replace(path)
    take(context)
    assert {"wort 31 of s", "word 61 of s"} <= set(texts(context))


def test_rewritten_with_other_keys_says_nothing_twice(home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    take(context)
    records = [json.loads(line) for line in session("s", project, 6).splitlines()]
    for number, record in enumerate(records):
        record["uuid"] = identity("other", number)
    path.write_bytes(lines(records))
    result = take(context)
    assert result.turns == {"new": 2, "repeated": 4}
    assert texts(context) == heard("s", *range(1, 7))
    whole_again(context)


def test_what_is_said_twice_is_there_twice_however_the_file_moves(home, project, context):
    """Two prompts of the same words, at no known time, are two, also where the second one comes with a new name."""
    plain = [said("s", number, "go on", project) for number in (1, 2, 3)]
    for record in plain:
        del record["timestamp"]
    path = place(home, "s")
    path.write_bytes(lines(plain[:1]))
    take(context)
    path.unlink()
    place(home, "t").write_bytes(lines(plain))
    take(context)
    assert texts(context) == ["go on"] * 3


def test_a_compressed_file_goes_on_where_the_plain_one_stopped(home, project, context):
    folder = home / ".codex" / "sessions" / "2026"
    folder.mkdir(parents=True)
    plain = folder / f"rollout-2026-01-01T00-00-00-{identity('c')}.jsonl"
    plain.write_bytes(codex("c", project, 3))
    assert take(context).turns["new"] == 3
    packed = plain.with_name(plain.name + ".zst")
    packed.write_bytes(zstandard.compress(codex("c", project, 3)))
    plain.unlink()
    assert take(context).turns == {"repeated": 3}
    with packed.open("ab") as out:  # A second frame.
        out.write(zstandard.compress(codex("c", project, 5)[len(codex("c", project, 3)) :]))
    assert take(context).turns["new"] == 2
    assert texts(context) == [f"codex {number}" for number in range(1, 6)]
    packed.write_bytes(packed.read_bytes()[:-9])  # Half-written: what can be unpacked is read, and nothing is lost.
    take(context)
    packed.write_bytes(b"\x28\xb5\x2f\xfd" + b"nonsense" * 10)
    assert [item.code for item in take(context).unreadable] == ["bad_source"]
    assert texts(context) == [f"codex {number}" for number in range(1, 6)]


def test_a_compressed_file_of_which_nothing_can_be_unpacked_yet_is_no_empty_one(home, project, context):
    path = home / ".codex" / "sessions" / f"rollout-2026-01-01T00-00-00-{identity('c')}.jsonl.zst"
    path.parent.mkdir(parents=True)
    whole = zstandard.compress(codex("c", project, 3))
    path.write_bytes(whole[: len(whole) // 2])
    assert take(context).problems == {"unfinished": 1}
    path.write_bytes(whole)
    assert take(context).turns == {"new": 3}
    path.write_bytes(zstandard.compress(b""))
    assert take(context).problems == {}


def test_whole_records_of_a_compressed_file_without_its_end_are_taken(home, project, context):
    path = home / ".codex" / "sessions" / f"rollout-2026-01-01T00-00-00-{identity('c')}.jsonl.zst"
    path.parent.mkdir(parents=True)
    three, five = codex("c", project, 3), codex("c", project, 5)
    stream = zstandard.ZstdCompressor().compressobj()
    flushed = stream.compress(three) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    whole = flushed + stream.compress(five[len(three) :]) + stream.flush()
    path.write_bytes(flushed)  # Cut between two lines: nothing in what comes out tells it.
    first = take(context)
    assert (first.turns, first.problems) == ({"new": 3}, {"unfinished": 1})
    path.write_bytes(whole[:-9])
    assert take(context).problems == {"unfinished": 1}
    path.write_bytes(whole)
    last = take(context)
    assert (last.turns["new"], last.problems) == (2, {})
    second = zstandard.compress(five)
    path.write_bytes(whole + second[: len(second) // 2])
    assert take(context).problems == {"unfinished": 1}
    assert texts(context) == [f"codex {number}" for number in range(1, 6)]


def _gemini(project: Path, count: int) -> bytes:
    words = [{"id": f"m{number}", "timestamp": "2026-01-01T00:00:01Z", "type": "user", "content": f"gem {number}"}
             for number in range(1, count + 1)]  # fmt: skip
    times = {"startTime": "2026-01-01T00:00:00Z", "lastUpdated": "2026-01-01T00:01:00Z"}
    return json.dumps({"sessionId": identity("g"), "projectHash": "x", **times, "messages": words}).encode()


def _cursor(project: Path, count: int) -> bytes:
    return "".join(f"user:\n<user_query>\ngem {number}\n</user_query>\n" for number in range(1, count + 1)).encode()


def _cuts(whole: bytes) -> dict[str, bytes]:
    """Return beginnings of a compressed file: what comes out of each of them is nothing, or looks as if it were all."""
    stream = zstandard.ZstdCompressor().compressobj()
    flushed = stream.compress(whole) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    packed = zstandard.compress(whole)
    sizes = {f"{size} bytes": packed[:size] for size in (1, 3, 4, 5, len(packed) // 2, len(packed) - 1)}
    return {**sizes, "all, but for the end": flushed, "a second one begins": packed + packed[:9]}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (f".cursor/projects/p/agent-transcripts/{identity('g')}.txt.zst", _cursor),
        (f".gemini/tmp/{'a' * 64}/chats/session-2026-01-01T00-00-{identity('g')[:8]}.json.zst", _gemini),
    ],
    ids=["cursor", "gemini"],
)
def test_of_a_compressed_document_without_its_end_nothing_is_read(name, written, home, project, context):
    """It is told what is missing; what is known stays; the whole one is taken."""
    path = home / name
    path.parent.mkdir(parents=True)

    def cut(count: int) -> None:
        for data in _cuts(written(project, count)).values():
            path.write_bytes(data)
            result = take(context, path=[path])
            assert (result.files, result.turns, result.problems) == ({"unreadable": 1}, {}, {})
            (told,) = result.unreadable
            assert (told.path, told.code) == (str(path), "bad_source")
            assert "its end is missing; it is taken once it is whole" in told.message

    cut(3)
    path.write_bytes(zstandard.compress(written(project, 3)))
    assert take(context, path=[path]).turns == {"new": 3}
    first = texts(context)
    assert [text.strip() for text in first] == ["gem 1", "gem 2", "gem 3"]
    known = states(context)
    cut(2)
    cut(5)
    assert (texts(context), states(context)) == (first, known)
    path.write_bytes(zstandard.compress(written(project, 5)))
    assert take(context, path=[path]).turns["new"] == 2
    assert [text.strip() for text in texts(context)] == [f"gem {number}" for number in range(1, 6)]


@pytest.mark.parametrize("size", [0, 1, 700_000])
def test_frames_are_unpacked_to_the_byte(tmp_path, size):
    pieces = [random.Random(seed).randbytes(size) + b"\0" * size * 9 for seed in range(3)]
    path = tmp_path / "s.jsonl.zst"
    path.write_bytes(b"".join(map(zstandard.compress, pieces)))
    with files.opened(path) as file:
        assert file.read() == b"".join(pieces)


def test_a_half_written_line_waits(home, project, context):
    path = place(home, "s")
    data = session("s", project, 4)
    cut = data.rindex(b"word 4")
    path.write_bytes(data[:cut])
    first = take(context)
    assert (first.turns["new"], first.problems) == (3, {"unfinished": 1})
    path.write_bytes(data)
    assert take(context).turns["new"] == 1
    assert texts(context) == heard("s", 1, 2, 3, 4)


def test_a_last_line_without_its_end_is_read(home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4).rstrip(b"\n"))
    assert take(context).turns["new"] == 4
    with path.open("ab") as out:
        out.write(b"\n" + session("s", project, 1, start=5))
    assert take(context).turns["new"] == 1
    assert texts(context) == heard("s", *range(1, 6))


def test_lines_that_end_as_windows_ends_them(home, project, context):
    path = place(home, "s")
    data = session("s", project, 4).replace(b"\n", b"\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + data)
    assert take(context).turns["new"] == 4
    with path.open("ab") as out:
        out.write(session("s", project, 1, start=5).replace(b"\n", b"\r\n") + b"\0" * 1728)
    assert take(context).turns["new"] == 1
    assert texts(context) == heard("s", *range(1, 6))


def test_a_file_that_became_something_else(home, project, context):
    """A folder, a dangling link, a pipe: each costs itself, and the others are read."""
    path = place(home, "s")
    path.write_bytes(session("s", project, 2))
    take(context)
    path.unlink()
    path.mkdir()
    place(home, "gone").symlink_to(home / "nowhere")
    place(home, "circle").symlink_to(place(home, "circle"))
    os.mkfifo(place(home, "pipe"))
    place(home, "t").write_bytes(session("t", project, 2))
    result = take(context)
    assert result.turns == {"new": 2}
    assert result.files["read"] == 1
    assert texts(context) == [*heard("s", 1, 2), *heard("t", 1, 2)]
    for name in ("s", "gone", "circle", "pipe"):
        named = take(context, path=[place(home, name)])
        assert (named.exits, named.files) == (30, {"unreadable": 1})


def test_a_vanished_file_is_no_deletion(home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 2))
    take(context)
    shutil.rmtree(home / ".claude")
    assert take(context).files == {}
    assert texts(context) == heard("s", 1, 2)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are POSIX's")
def test_what_may_not_be_read_costs_itself(home, project, context, monkeypatch):
    path = place(home, "s")
    path.write_bytes(session("s", project, 2))
    place(home, "t").write_bytes(session("t", project, 2))
    if os.geteuid() == 0:  # Nothing is forbidden to root: the system says no in another way.
        whole_open = Path.open

        def refuse(self, *words, **named):
            if self == path:
                raise PermissionError(13, "Permission denied", str(path))
            return whole_open(self, *words, **named)

        monkeypatch.setattr(Path, "open", refuse)
    else:
        path.chmod(0)
    result = take(context)
    assert (result.exits, result.files) == (30, {"read": 1, "unreadable": 1})
    assert [(item.path, item.code) for item in result.unreadable] == [(str(path), "bad_source")]
    monkeypatch.undo()
    path.chmod(0o600)
    assert names(context) == ["t"]


def test_one_bad_record_costs_one_record(home, project, context):
    path = place(home, "s")
    good = session("s", project, 6).splitlines(keepends=True)
    bad = [
        b"[1]\n",
        b"null\n",
        b'"text"\n',
        b"{\n",
        b'{"type": 7}\n',
        b'{"type": "user", "message": null}\n',
    ]
    odd = said("s", 90, "odd", project, by="assistant")
    odd["message"]["content"] = [None, {"type": "text", "text": None}, {"type": "tool_use", "name": None, "input": "x"}]
    odd["timestamp"] = 10**20
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    path.write_bytes(b"".join([*mixed, b"\xff\xfe\n", lines([odd]), session("s", project, 1, start=95)]))
    result = take(context)
    assert result.files == {"read": 1}
    assert sum(result.problems.values()) >= 5
    assert [text.partition("\n")[0] for text in texts(context) if text.startswith("word")] == heard(
        "s", *range(1, 7), 95
    )


def ingested(project, prelude: str = "pass") -> tuple[str, str, int]:
    """Ingest in a process of its own; return how many turns were new, the problems, and the peak of memory in bytes."""
    # What `getrusage` tells begins with the peak of the process that started this one; the system's own does not.
    script = (
        "import re, resource, sys; from pathlib import Path; from bede.context import Context;"
        f"from bede.operations.ingest import ingest; {prelude};"
        "c = Context(directory=Path(sys.argv[1])); r = ingest(c);"
        "own = Path('/proc/self/status'); used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', own.read_text())[1] if own.exists() else used;"
        "print(r.turns['new'], r.problems, peak)"
    )
    from conftest import surroundings

    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(project)],
        env=surroundings(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, rest = done.stdout.split(" ", 1)
    problems, peak = rest.rsplit(" ", 1)
    return count, problems, int(peak) * 1024


def test_a_line_that_is_too_long_is_passed_over_in_bounded_memory(home, project):
    path = place(home, "s")
    with path.open("wb") as out:
        out.write(session("s", project, 2) + b'{"type":"user","message":{"content":"')
        for _ in range(200):
            out.write(b"x" * (1 << 20))
        out.write(b'"}}\n' + session("s", project, 2, start=3))
    count, problems, peak = ingested(project, "from bede.sources import jsonl; jsonl.LONGEST = 16 << 20")
    assert (count, problems) == ("4", "{'too long': 1}")
    assert peak < 160 << 20


def test_a_prompt_of_70_megabytes_is_kept_whole_in_a_few_times_its_size(home, project, context):
    """It is mostly blanks, of which many make one token, so that its windows are soon indexed."""
    prompt = ("x" + " " * 129) * 540_000
    place(home, "s").write_bytes(session("s", project, 2) + lines([said("s", 3, prompt, project)]))
    count, problems, peak = ingested(project)
    assert (count, problems) == ("3", "{}")
    assert peak < 6 * len(prompt)
    assert texts(context)[2] == prompt


def test_a_tools_result_of_70_megabytes_takes_little_more_than_its_line(home, project, context):
    block = {"type": "tool_result", "tool_use_id": "toolu_unknown", "content": "x y\n" * (70 << 18)}
    record = said("s", 3, "", project)
    record["message"]["content"] = [block]
    place(home, "s").write_bytes(session("s", project, 2) + lines([record]) + session("s", project, 2, start=4))
    size = len(json.dumps(record))
    del record, block
    count, problems, peak = ingested(project)
    assert (count, problems) == ("4", "{}")
    assert peak < 4 * size
    assert len(texts(context)) == 4


def test_a_cursor_holds_a_turn_of_any_size(context):
    path, state = Path("/a/file"), {"turns": {"s": {"open": {"parts": [{"text": "word " * (14 << 20)}]}}}}
    with context.repository.write("ingest", "a", 1) as writing:
        cursors.put(writing.connection, path, cursors.Cursor("a", {}, state))
        assert cursors.find(writing.connection, path) == cursors.Cursor("a", {}, state)


def test_a_raw_copy_has_of_a_line_that_is_too_long_its_end(home, project, monkeypatch, tmp_path):
    monkeypatch.setattr(sifting, "LONGEST", 50)
    path = place(home, "s")
    path.write_bytes(b"one\n" + b"x" * 50 + b"\n" + b"y" * 120 + b"\n" + b"z" * 49 + b"\nlast\n" + b"w" * 60)
    copies = escrow.Escrow(tmp_path / "raw")
    copies.keep("claude-code", path, 0, path.stat().st_size, ())
    with files.opened(copies.place("claude-code", path)) as kept:
        assert kept.read() == b"one\n\n\n" + b"z" * 49 + b"\nlast\n"


def test_twenty_thousand_small_files(home, project, context):
    """Each is somebody else's, but for a few; the second run opens none of them."""
    folder = place(home, "s").parent
    for number in range(20_000):
        cwd = project if number % 1000 == 0 else "/somewhere/else"
        (folder / f"n{number}.jsonl").write_bytes(session(f"n{number}", cwd, 1))
    first = take(context)
    assert first.files == {"read": 20, "foreign": 19_980}
    assert len(names(context)) == 20
    again = take(context)
    assert (again.files, again.records) == ({"foreign": 19_980, "unchanged": 20}, 0)


def test_times_that_go_back_change_nothing(home, project, context, clock):
    path = place(home, "s")
    records = [said("s", number, f"at {number}", project) for number in (1, 2, 3, 4)]
    records[1]["timestamp"], records[2]["timestamp"] = "2099-01-01T00:00:00Z", "1969-01-01T00:00:00Z"
    path.write_bytes(lines(records[:3]))
    os.utime(path, (4_000_000_000, 4_000_000_000))
    clock.at += 10**15
    take(context)
    with path.open("ab") as out:
        out.write(lines(records[3:]))
    os.utime(path, (1, 1))
    clock.at = 1
    assert take(context).turns["new"] == 1
    assert texts(context) == ["at 1", "at 2", "at 3", "at 4"]
    whole_again(context)
