"""`memkernel.notices/v1`: what that package writes is read here, what is written here it reads, and nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contracts.machines import AT, DAY, HOUR, Machine

from bede.errors import BadSource
from bede.exchange import document
from bede.identity import canonical, timestamp
from bede.projections.notices import Notice

#: Exported by memkernel-mcp 0.3.0, as it stands.
SAMPLE = (
    '{"notices":[{"author":"alice","cleared_at":"2026-11-30T18:24:20.817664Z","created_at":"2026-11-30T18:24:20.81674'
    '1Z","expires_at":"2026-11-30T18:24:21.816741Z","message":"done soon","notice_id":"0e2d4f16-5f65-411e-b966-0c7f0a'
    'bb88d5","resource":"repo:frontend/login"},{"author":"alice","cleared_at":null,"created_at":"2026-11-30T18:24:20.'
    '812978Z","expires_at":"2026-11-30T19:24:20.812978Z","message":"Grüße, changing login ✓\\nline two","notice_id":"'
    '57cf280d-e427-4a02-9b0b-30ccd0de0715","resource":"service:auth"}],"schema":"memkernel.notices/v1"}'
)
ID = "57cf280d-e427-4a02-9b0b-30ccd0de0715"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "laptop-a", "alice")


def item(**said: Any) -> dict[str, Any]:
    """Return a notice as it stands in a document."""
    return {
        "notice_id": ID,
        "author": "alice",
        "resource": "service:auth",
        "message": "Changing login",
        "created_at": timestamp(AT),
        "expires_at": timestamp(AT + HOUR),
        "cleared_at": None,
        **said,
    }


def text(*items: Any, **said: Any) -> str:
    return json.dumps({"schema": document.SCHEMA, "notices": list(items), **said}, ensure_ascii=False)


def reason(data: bytes) -> str:
    with pytest.raises(BadSource) as caught:
        document.read(data)
    assert caught.value.exit_status == 30
    return caught.value.reason


def test_what_the_other_package_wrote_is_read_and_written_back_byte_for_byte(machine: Machine) -> None:
    machine.at = AT + 400 * DAY
    assert machine.call("notice", "import", [SAMPLE])["changed"] == 2
    assert machine.call("notice", "import", [SAMPLE])["changed"] == 0
    exported = machine.call("notice", "export")["document"]
    assert canonical(exported).decode() == SAMPLE
    assert machine.is_sound()


def test_the_real_package_reads_what_is_written_here(machine: Machine, tmp_path: Path) -> None:
    python = os.environ.get("MEMKERNEL_PYTHON")
    if not python:
        pytest.skip("MEMKERNEL_PYTHON names no interpreter that has memkernel-mcp")
    identity = machine.post("Grüße ✓\nzweite Zeile")
    machine.call("notice", "clear", [machine.post("over")])
    machine.call("notice", "export", to=tmp_path / "from.json")
    command = [python, "-c", _PEER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [2, 0]
    machine.at = AT + 10_000 * DAY  # The other one posts by the clock on the wall.
    assert machine.call("notice", "import", [str(tmp_path / "back.json")])["changed"] == 1
    assert machine.notices()[identity]["message"] == "Grüße ✓\nzweite Zeile"


_PEER = """
import asyncio, json, sys
from pathlib import Path
from memkernel import MemKernel
folder = Path(sys.argv[1])
async def main():
    async with await MemKernel.open(folder / "peer.db", auto_gc=False) as kernel:
        given = (folder / "from.json").read_text()
        counts = [await kernel.notices.import_json(given) for _ in range(2)]
        await kernel.notices.post(agent_id="carol", resource="service:pay", message="from there")
        (folder / "back.json").write_text(await kernel.notices.export_json())
        print(json.dumps(counts))
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "invalid_document"),
        (b"[]", "invalid_document"),
        (b"\xff\xfe{}", "invalid_document"),
        (b'{"schema":"memkernel.notices/v1","schema":"memkernel.notices/v1","notices":[]}', "invalid_document"),
        (b'{"schema":"memkernel.notices/v1","notices":[NaN]}', "invalid_document"),
        (b'{"schema":"memkernel.notices/v1","notices":[1e999]}', "invalid_document"),
        (b'{"schema":"memkernel.notices/v1","notices":["\\ud800"]}', "invalid_document"),
        (b"[" * 100_000, "invalid_document"),
        (b'{"schema":"memkernel.notices/v1","notices":' + b"[" * 300 + b"]" * 300 + b"}", "invalid_document"),
        (b'{"n":' + b"9" * 5000 + b"}", "invalid_document"),
        (b'{"schema":"memkernel.notices/v2","notices":[]}', "wrong_schema"),
        (b'{"notices":[]}', "wrong_schema"),
        (b'{"schema":"memkernel.notices/v1","notices":[],"more":1}', "unknown_field"),
        (b'{"schema":"memkernel.notices/v1"}', "invalid_notices"),
        (b'{"schema":"memkernel.notices/v1","notices":{}}', "invalid_notices"),
        (b" " * (1024 * 1024 + 1), "too_large"),
    ],
)
def test_a_document_that_is_none_is_refused(data: bytes, expected: str) -> None:
    assert reason(data) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("notice_id", value) for value in ("", 7, None, ID.upper(), ID + "\n", "../" + ID, "A:" + ID, ID[:-1])),
        ("notice_id", "57cf280d-e427-1a02-9b0b-30ccd0de0715"),
        *(("author", value) for value in ("", None, 1, "-a", "a b", "é", "a" * 129, "a\n")),
        *(
            ("resource", value)
            for value in ("", "auth", "/etc/passwd", "s:", "s:/etc", "S:a", "c:\\a", "s:a b", "s:" + "a" * 193)
        ),
        *(("message", value) for value in ("", "  \n", None, 5, "a" * 4097)),
        *(("created_at", value) for value in (None, "", 5, "2026-01-02", "2026-01-02T03:04:05", "never")),
        ("created_at", "0001-01-01T00:00:00Z"),
        *(("expires_at", value) for value in (None, timestamp(AT), timestamp(AT - 1), timestamp(AT + 7 * DAY + 1))),
        *(("cleared_at", value) for value in ("", False, timestamp(AT - 1), "9999-12-31T23:59:59-12:00")),
    ],
)
def test_each_field_of_a_notice_is_looked_at(name: str, value: object) -> None:
    assert reason(text(item(**{name: value})).encode()) == "invalid_notice"


def test_a_notice_with_more_or_twice_or_too_many_is_refused() -> None:
    assert reason(text(item(priority=1)).encode()) == "unknown_field"
    assert reason(text("a notice").encode()) == "invalid_notice"
    assert reason(text(item(), item()).encode()) == "duplicate_notice"
    assert reason(text(*["x"] * 1001).encode()) == "too_many"


def test_times_are_the_same_in_every_zone() -> None:
    (one,) = document.read(text(item(created_at="2026-01-02T05:04:05+02:00")).encode())
    (other,) = document.read(text(item()).encode())
    assert one == other


def test_a_board_of_any_size_is_exported_as_far_as_there_is_room() -> None:
    """The peer answers a board of 1,001 with the complaint of its validator."""
    board = [
        Notice(f"00000000-0000-4000-8000-{n:012x}", "alice", "service:auth", "m", AT, AT + HOUR) for n in range(1001)
    ]
    made, missing = document.export(board)
    assert (len(made["notices"]), missing) == (1000, 1)
    wide = [
        Notice(f"00000000-0000-4000-8000-{n:012x}", "a", "s:a", "é" * 4096, AT, AT + HOUR) for n in range(200)
    ]
    made, missing = document.export(wide)
    assert missing > 0
    assert len(canonical(made)) <= document.LARGEST
    assert document.read(canonical(made)) == sorted(wide[: 200 - missing], key=lambda one: one.id)


def test_what_says_something_else_refuses_the_whole_batch(machine: Machine) -> None:
    machine.call("notice", "import", [text(item())])
    before = machine.count(), machine.notices()
    fresh = item(notice_id="0e2d4f16-5f65-411e-b966-0c7f0abb88d5")
    for field, value in (
        ("author", "mallory"),
        ("resource", "service:pay"),
        ("message", "Changing login!"),
        ("created_at", timestamp(AT - 1)),
        ("expires_at", timestamp(AT + HOUR + 1)),
    ):
        with pytest.raises(Exception, match="says something else") as caught:
            machine.call("notice", "import", [text(fresh, item(**{field: value}))])
        assert (caught.value.code, caught.value.reason) == ("conflict", "notice_conflict")  # type: ignore[attr-defined]
    assert (machine.count(), machine.notices()) == before


def test_clearing_wins_in_either_order_and_the_earliest_counts(tmp_path: Path) -> None:
    holds, late, early = (text(item(cleared_at=at)) for at in (None, timestamp(AT + 9), timestamp(AT + 5)))
    for number, order in enumerate(((holds, late, early), (early, holds, late), (late, early, holds))):
        machine = Machine(tmp_path, f"laptop-{number}", "alice")
        for said in order:
            machine.call("notice", "import", [said])
        assert machine.notices()[ID]["cleared_at"] == timestamp(AT + 5)
        assert machine.call("notice", "import", [text()])["changed"] == 0
        assert set(machine.notices()) == {ID}


def test_a_notice_that_is_yet_to_be_made_is_refused(machine: Machine) -> None:
    late = item(created_at=timestamp(AT + 2 * DAY), expires_at=timestamp(AT + 3 * DAY))
    with pytest.raises(BadSource) as caught:
        machine.call("notice", "import", [text(item(notice_id=ID.replace("5", "6")), late)])
    assert caught.value.reason == "future_notice"
    assert not machine.notices()


def test_a_secret_in_what_comes_is_taken_out_and_the_notice_known_again(machine: Machine) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    said = text(item(message=f"use {secret} for login"))
    assert machine.call("notice", "import", [said])["changed"] == 1
    assert machine.call("notice", "import", [said])["changed"] == 0
    assert secret not in str(machine.notices())
    assert secret.encode() not in (machine.root / ".bede/bede.db").read_bytes()
    exported = machine.call("notice", "export")
    assert (exported["document"]["notices"], exported["left_out"]) == ([], {"count": 1})
    with pytest.raises(Exception, match="says something else"):
        machine.call("notice", "import", [text(item(message="use [redacted:other] for login"))])


def test_what_was_purged_does_not_come_back(machine: Machine) -> None:
    machine.call("notice", "import", [text(item(message="what nobody should know"))])
    with closing(machine.context()) as context, context.repository.snapshot() as reading:
        event = next(reading.walk(reading.spans(reading.tip("coordination"))))
    machine.call("purge", [event.id], yes=True)
    again = text(item(message="what nobody should know", cleared_at=timestamp(AT + 1)))
    assert machine.call("notice", "import", [again])["changed"] == 0
    assert not machine.notices()
    machine.call("reindex")
    assert not machine.notices()
    assert machine.is_sound()
