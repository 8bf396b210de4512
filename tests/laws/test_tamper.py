"""Tampering: whatever is changed in a canonical row is found, and a clean file is never reported.

One history with everything in it (branches, merges, a purge, an undo, foreign sources, a deleted branch) is held in
memory; each tampering happens in a transaction that is rolled back. A tampering counts only if it changed stored bytes.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from laws.histories import AT

from bede.identity import ZERO, canonical, digest, event_id, operation_hash
from bede.records import Draft
from bede.repository import Repository, refs
from bede.repository.verify import verify

TABLES = ("project", "event", "line", "stretch", "ref", "operation")
#: Tamperings in each of the runs below: 10,400 in all.
RUNS, EACH = 8, 1300

Row = list[Any]


def _note(number: int, **said: Any) -> Draft:
    return Draft("note", {"summary": f"memory {number}", **said}, ("ada", "bob")[number % 2], AT + number)


@cache
def _image() -> bytes:
    """Return the file of a history that has some of everything."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bede.db"
        repository = Repository.create(path, (), actor="ada", at=AT)
        _write_history(repository)
        assert repository.verify().findings == ()
        repository.close()
        data = bytearray(path.read_bytes())
    # The write-ahead log has no place in memory: both file format numbers say "rollback journal" here.
    data[18:20] = b"\x01\x01"
    return bytes(data)


def _write_history(repository: Repository) -> None:
    def append(ref: str, *drafts: Draft, merged: str = "", verb: str = "store") -> None:
        with repository.write(verb, "ada", AT + 9) as writing:
            writing.append(ref, drafts, merged=writing.tip(merged) if merged else None)

    def move(verb: str, **moves: str | None) -> None:
        with repository.write(verb, "bob", AT + 10) as writing:
            for ref, target in moves.items():
                writing.move(ref, writing.resolve(target) if target else None)

    for number in range(6):
        append("main", _note(number))
    append("main", *(_note(number, tags=["x", "ü"]) for number in range(6, 10)))
    move("fork", idea="main~4", other="main")
    append("idea", _note(11), _note(12))
    append("main", _note(13))
    append("main", Draft("merge", {"branch": "idea"}, "ada", AT + 14), merged="idea", verb="merge")
    append("other", _note(15), _note(16))
    append("idea", Draft("merge", {"branch": "other"}, "ada", AT + 17), merged="other", verb="merge")
    move("rollback", main="main~3")
    append("main", _note(18))
    move("fork", other=None)
    with repository.write("checkout", "bob", AT, {"worktree": "w", "branch": "idea"}) as writing:
        writing.check_out("w", "idea")
    source = json.dumps({"agent": "x", "record": 1, "session": "s"})
    append("sessions/x/1", Draft("turn", {"text": "said"}, "x", AT + 19, source, b"s" * 16), verb="ingest")
    with repository.write("purge", "ada", AT + 20, {"seqs": [3, 8]}) as writing:
        writing.purge([3, 8])
    with repository.write("store", "ada", AT) as writing:
        refs.settle(writing.connection)
    for number in range(21, 50):
        append(("main", "idea", "sessions/x/1")[number % 3], _note(number))


@pytest.fixture
def memory() -> Iterator[sqlite3.Connection]:
    """The history in memory, with a transaction open that is rolled back in the end."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_image())
    connection.execute("BEGIN")
    yield connection
    connection.close()


@cache
def _columns(table: str) -> tuple[tuple[str, str, bool], ...]:
    """Return name, type and whether NULL is allowed of every column."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(_image())
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    connection.close()
    return tuple((row[1], row[2], not row[3] and not row[5]) for row in rows)


def _stored(connection: sqlite3.Connection) -> list[list[tuple[Any, ...]]]:
    """Return the stored bytes of every canonical row."""
    connection.text_factory = bytes
    try:
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in TABLES]
    finally:
        connection.text_factory = str


def _rows(connection: sqlite3.Connection, table: str) -> list[Row]:
    return [list(row) for row in connection.execute(f"SELECT * FROM {table}")]


def _replace(connection: sqlite3.Connection, table: str, old: list[Row], new: list[Row]) -> None:
    """Take rows out by their first column, which is unique, and put others in."""
    key = _columns(table)[0][0]
    connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", [row[:1] for row in old])
    marks = ", ".join("?" * len(_columns(table)))
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", new)


def _other_integer(chance: random.Random, old: int | None, others: list[Any]) -> int:
    base = old or 0
    near = (base + 1, base - 1, base + chance.randrange(2, 9), base ^ 1 << chance.randrange(0, 40))
    return chance.choice([*near, 0, -1, 2**62, *others])


def _other_text(chance: random.Random, old: str, others: list[Any]) -> str:
    spot = chance.randrange(len(old) + 1)
    char = chance.choice("x0 \n\0é\u2028:1-")
    changed = (old[:spot] + char + old[spot:], old[:spot] + char + old[spot + 1 :], old[:spot] + old[spot + 1 :])
    return chance.choice([*changed, "", old.swapcase(), old + old, old[::-1], *others])


def _other_bytes(chance: random.Random, old: bytes | None, others: list[Any]) -> bytes:
    old = old or b""
    spot = chance.randrange(len(old) + 1)
    flipped = bytearray(old or b"\0")
    flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    changed = (bytes(flipped), old[:spot] + old[spot + 1 :], old[:spot] + b"\0" + old[spot:])
    return chance.choice([*changed, b"", bytes(len(old)), old[::-1], *others])


_OTHERS: dict[str, Callable[[random.Random, Any, list[Any]], Any]] = {
    "INTEGER": _other_integer,
    "TEXT": _other_text,
    "BLOB": _other_bytes,
}


def edit(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Give one value of one row another value of its type."""
    table = chance.choice(TABLES)
    rows = _rows(connection, table)
    row = chance.choice(rows)
    spot = chance.randrange(len(row))
    _name, kind, may_be_null = _columns(table)[spot]
    others = [item[spot] for item in chance.sample(rows, min(3, len(rows))) if item[spot] is not None]
    fallback = {"INTEGER": 0, "TEXT": "", "BLOB": b""}[kind]
    old = fallback if row[spot] is None else row[spot]
    new = None if may_be_null and chance.random() < 0.2 else _OTHERS[kind](chance, old, others)
    _replace(connection, table, [row], [[*row[:spot], new, *row[spot + 1 :]]])


def spoil(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Put bytes that are no UTF-8 where text belongs."""
    table = chance.choice([table for table in TABLES if any(kind == "TEXT" for _, kind, _ in _columns(table))])
    column = chance.choice([name for name, kind, _ in _columns(table) if kind == "TEXT"])
    key, row = _columns(table)[0][0], chance.choice(_rows(connection, table))
    connection.execute(f"UPDATE {table} SET {column} = CAST(x'e9ff' AS TEXT) WHERE {key} = ?", row[:1])


def delete(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Take out a row, or a few of one table."""
    table = chance.choice(TABLES)
    rows = _rows(connection, table)
    gone = chance.sample(rows, min(len(rows), chance.choice((1, 1, 1, 2, 5))))
    _replace(connection, table, gone, [])


def insert(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Put in a row like another one, under a key of its own."""
    table = chance.choice(TABLES)
    row = list(chance.choice(_rows(connection, table)))
    for spot, (name, kind, _) in enumerate(_columns(table)):
        if spot == 0 or name in ("id", "position", "source") or chance.random() < 0.2:
            nothing = b"" if kind == "BLOB" else 0
            row[spot] = _OTHERS[kind](chance, nothing if row[spot] is None else row[spot], [])
    _replace(connection, table, [], [row])


def slip_in(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Put in an event that is right in itself, laid where it belongs, but never was appended by an operation."""
    events = _rows(connection, "event")
    seq, parent = events[-1][0] + 1, chance.choice(events)
    body, salt = canonical({"summary": "it never happened"}), bytes(16)
    payload = digest(salt, body)
    identity = event_id("note", [parent[1].hex()], "eve", "", AT, payload)
    line, position = parent[9], parent[10] + 1
    if any(item[9:11] == [line, position] for item in events):
        line, position = max(item[9] for item in events) + 1, 1
        _replace(connection, "line", [], [[line, parent[9], parent[10], None, None]])
    row = [seq, identity, "note", parent[0], None, "eve", "", AT, None, line, position, salt, body]
    _replace(connection, "event", [], [row])
    if seq != parent[0] + 1:
        _replace(connection, "stretch", [], [[seq, line, position]])
    if chance.random() < 0.5:
        connection.execute("UPDATE ref SET seq = ? WHERE seq = ?", (seq, parent[0]))


def swap(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Exchange two rows' values: of one column, or of all but the key."""
    table = chance.choice([table for table in TABLES if table != "project"])
    one, other = chance.sample(_rows(connection, table), 2)
    spots = range(1, len(one)) if chance.random() < 0.5 else [chance.randrange(1, len(one))]
    left, right = list(one), list(other)
    for spot in spots:
        left[spot], right[spot] = right[spot], left[spot]
    _replace(connection, table, [one, other], [left, right])


def reorder(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Let a few rows of a log change their turns; events take their children along, or do not."""
    table = chance.choice(("event", "operation", "line"))
    rows = chance.sample(_rows(connection, table), chance.choice((2, 2, 3)))
    turned = {row[0]: rows[spot - 1][0] for spot, row in enumerate(rows)}
    _replace(connection, table, rows, [[turned[row[0]], *row[1:]] for row in rows])
    if table == "event" and chance.random() < 0.7:
        children = [row for row in _rows(connection, "event") if row[3] in turned or row[4] in turned]
        again = [[*row[:3], turned.get(row[3], row[3]), turned.get(row[4], row[4]), *row[5:]] for row in children]
        _replace(connection, "event", children, again)


TAMPERINGS = (edit, edit, edit, edit, spoil, delete, insert, slip_in, swap, swap, reorder)


def test_the_clean_history_is_not_reported(memory):
    verdict = verify(memory)
    assert verdict.findings == ()
    assert verdict.events > 40
    assert verdict.purged == 2
    assert {"event", "operation"} <= {table for table in TABLES if len(_rows(memory, table)) > 30}


@pytest.mark.parametrize("run", range(RUNS))
def test_every_tampering_is_found(memory, run):
    chance = random.Random(f"tamper {run}")
    clean = _stored(memory)
    done, tried, missed = 0, 0, []
    while done < EACH:
        tried += 1
        tamper = chance.choice(TAMPERINGS)
        memory.execute("SAVEPOINT clean")
        try:
            tamper(memory, chance)
            if _stored(memory) != clean:
                done += 1
                if not verify(memory).findings:
                    missed.append((tamper.__name__, tried))
        except sqlite3.IntegrityError:
            pass  # The tables themselves refuse it.
        memory.execute("ROLLBACK TO clean")
        memory.execute("RELEASE clean")
    assert not missed
    assert _stored(memory) == clean
    assert verify(memory).findings == ()


@pytest.mark.parametrize("table", TABLES)
def test_every_value_of_every_row_counts(memory, table):
    """Each single value is changed in turn, in one small way."""
    tried, missed = 0, []
    for row in _rows(memory, table):
        for spot, (name, kind, _) in enumerate(_columns(table)):
            change = {
                "INTEGER": lambda old: (old or 0) + 1,
                "TEXT": lambda old: old + "x",
                "BLOB": lambda old: bytes([old[0] ^ 1]) + old[1:] if old else b"x",
            }[kind]
            memory.execute("SAVEPOINT clean")
            try:
                _replace(memory, table, [row], [[*row[:spot], change(row[spot]), *row[spot + 1 :]]])
                tried += 1
                if not verify(memory).findings:
                    missed.append((name, row[0]))
            except sqlite3.IntegrityError:
                pass
            memory.execute("ROLLBACK TO clean")
    assert not missed
    assert tried >= len(_columns(table))


def _cut(connection: sqlite3.Connection, number: int) -> None:
    """Take away everything that came after an operation, and leave no trace of it."""
    (last,) = connection.execute("SELECT last FROM operation WHERE number = ?", (number,)).fetchone()
    connection.execute("DELETE FROM operation WHERE number > ?", (number,))
    for table in ("event", "stretch"):
        connection.execute(f"DELETE FROM {table} WHERE seq > ?", (last,))
    connection.execute("DELETE FROM line WHERE line NOT IN (SELECT line FROM event)")
    tips: dict[str, int] = {}
    for (moves,) in connection.execute("SELECT moves FROM operation ORDER BY number"):
        for ref, _old, new in (text.split() for text in moves.splitlines()):
            tips[ref] = int(new)
    connection.execute("DELETE FROM ref")
    connection.executemany("INSERT INTO ref VALUES (?, ?)", [item for item in tips.items() if item[1]])
    connection.execute("UPDATE indexed SET number = ?", (number,))


def _rehash(connection: sqlite3.Connection) -> None:
    """Compute every digest, id and hash anew, as somebody would who rewrites the history as a whole."""
    ids: dict[int, str] = {0: "-"}
    for row in _rows(connection, "event"):
        seq, _, kind, parent, merged, actor, source, happened, payload, *_, salt, body = row
        kept = payload
        if body is not None:
            payload = digest(salt, body)
        parents = [ids[item] for item in (parent, merged) if item is not None]
        identity = event_id(kind, parents, actor, source, happened, payload)
        ids[seq] = identity.hex()
        connection.execute("UPDATE event SET id = ?, digest = ? WHERE seq = ?", (identity, kept, seq))
    before, arrived = ZERO, 0
    for number, verb, actor, at, note, moves, last, _ in _rows(connection, "operation"):
        words = [text.split() for text in moves.splitlines()]
        named = "".join(f"{ref} {ids[int(old)]} {ids[int(new)]}\n" for ref, old, new in words)
        listed = [ids[seq] for seq in range(arrived + 1, last + 1)]
        value = operation_hash(before, number, verb, actor, at, note, named, listed)
        connection.execute("UPDATE operation SET hash = ? WHERE number = ?", (value, number))
        before, arrived = value.hex(), last


def _anchors(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    return [(row[0], row[7].hex()) for row in _rows(connection, "operation")]


def test_a_cut_tail_is_found_with_an_anchor_alone(memory):
    anchors = _anchors(memory)
    for number, _ in anchors[:-1]:
        memory.execute("SAVEPOINT clean")
        _cut(memory, number)
        # A shorter history is a whole one: without the anchor there is nothing to hold against it.
        cut_a_purge = number < next(row[0] for row in _rows_of(anchors, memory, "purge"))
        assert not verify(memory).findings or cut_a_purge
        for anchor in anchors[number:]:
            assert verify(memory, anchor).findings
        memory.execute("ROLLBACK TO clean")


def _rows_of(anchors: list[tuple[int, str]], connection: sqlite3.Connection, verb: str) -> list[Row]:
    found = [row for row in _rows(connection, "operation") if row[1] == verb]
    return found or [[len(anchors) + 1]]


def test_a_history_rewritten_as_a_whole_is_found_with_an_anchor_alone(memory):
    chance, anchors = random.Random("rewrite"), _anchors(memory)
    payloads = [row[0] for row in _rows(memory, "event") if row[0] > 1 and row[-1] is not None]
    for seq in chance.sample(payloads, 15):
        column, value = chance.choice(
            (("actor", "eve"), ("happened_at", AT - 1), ("kind", "decision"), ("body", canonical({"summary": "no"})))
        )
        memory.execute("SAVEPOINT clean")
        memory.execute(f"UPDATE event SET {column} = ? WHERE seq = ?", (value, seq))
        assert verify(memory).findings
        _rehash(memory)
        assert verify(memory).findings == ()
        (first,) = memory.execute("SELECT min(number) FROM operation WHERE last >= ?", (seq,)).fetchone()
        for anchor in (anchors[0], *chance.sample(anchors, 8), anchors[-1]):
            assert bool(verify(memory, anchor).findings) == (anchor[0] >= first)
        memory.execute("ROLLBACK TO clean")


def test_an_anchor_of_nothing_that_was_is_not_believed(memory):
    number, value = _anchors(memory)[-1]
    assert verify(memory, (number, value)).findings == ()
    for anchor in ((number, "0" * 64), (number, ""), (number + 1, value), (0, ZERO), (-1, value), (number - 1, value)):
        assert verify(memory, anchor).findings


# What follows keeps every hash as it is, and says something else all the same.


def _last_move(connection: sqlite3.Connection) -> Row:
    return [row for row in _rows(connection, "operation") if row[5]][-1]


@pytest.mark.parametrize(
    "respell",
    [
        lambda ref, old, new: f"{ref} 0{old} {new}\n",
        lambda ref, old, new: f"{ref} {old} +{new}\n",
        lambda ref, old, new: f"{ref} {old} {new[0]}_{new[1:]}\n",
        lambda ref, old, new: f"{ref} {old} {new}",
        lambda ref, old, new: f"{ref} {old} {new}\x0b",
        lambda ref, old, new: f"{ref} {old} {new}\n\n",
        lambda ref, old, new: f"{ref} {old} {new.translate({48 + n: 0x660 + n for n in range(10)})}\n",
    ],
)
def test_a_move_spelt_otherwise_is_found(memory, respell):
    row = _last_move(memory)
    moves = respell(*row[5].split())
    assert moves != row[5]
    _replace(memory, "operation", [row], [[*row[:5], moves, *row[6:]]])
    assert verify(memory).findings


def test_a_move_counted_from_the_end_is_found(memory):
    """A deleted branch leaves no ref to compare with, so only the spelling can tell."""
    rows = [row for row in _rows(memory, "operation") if "other" in row[5]]
    (last,) = memory.execute("SELECT max(seq) FROM event").fetchone()
    assert len(rows) == 3
    tip = rows[1][5].split()[2]
    from_the_end = str(int(tip) - last - 1)
    for row in rows[1:]:
        words = [from_the_end if word == tip else word for word in row[5].split(" ")]
        moves = " ".join(words).replace(f" {tip}\n", f" {from_the_end}\n")
        _replace(memory, "operation", [row], [[*row[:5], moves, *row[6:]]])
    assert verify(memory).findings


def test_how_far_the_refs_were_written_down_counts(memory):
    """Any other number is found, or names an operation after which they were in the same places."""
    there, right = refs.all_refs(memory), refs.written(memory)
    assert 10 < right < len(_rows(memory, "operation")) - 20
    for number in range(-2, len(_rows(memory, "operation")) + 3):
        memory.execute("UPDATE indexed SET number = ?", (number,))
        assert verify(memory).findings or refs.all_refs(memory) == there, number
    memory.execute("DELETE FROM indexed")
    assert refs.all_refs(memory) == there


def test_a_move_hidden_in_the_note_is_found(memory):
    """Note and moves stand behind each other in the hashed form; the ref itself is put back too."""
    row = _rows(memory, "operation")[-1]
    ref, old, new = row[5].split()
    ids = {0: "-", **{item[0]: item[1].hex() for item in _rows(memory, "event")}}
    note = f"{row[4]}\n{ref} {ids[int(old)]} {ids[int(new)]}"
    _replace(memory, "operation", [row], [[*row[:4], note, "", *row[6:]]])
    memory.execute("UPDATE ref SET seq = ? WHERE name = ?", (int(old), ref))
    assert verify(memory).findings


def test_a_parent_hidden_in_the_kind_is_found(memory):
    """A merge becomes an event of its second parent's line, with every id as it was."""
    events = _rows(memory, "event")
    ids = {row[0]: row[1].hex() for row in events}
    tried = 0
    for merge in (row for row in events if row[4] is not None):
        memory.execute("SAVEPOINT clean")
        end = next(row for row in events if row[0] == merge[4])
        if not any(row[9:11] == [end[9], end[10] + 1] for row in events):
            tried += 1
            moved = [row for row in events if row[9] == merge[9]]
            again = [[*row[:9], end[9], end[10] + row[10], *row[11:]] for row in moved]
            again[0][2:5] = [f"merge\nparent {ids[merge[3]]}", merge[4], None]
            _replace(memory, "event", moved, again)
            memory.execute("DELETE FROM line WHERE line = ?", (merge[9],))
            laid = "UPDATE stretch SET line = ?, position = position + ? WHERE line = ?"
            memory.execute(laid, (end[9], end[10], merge[9]))
            for table in ("line", "event", "stretch"):  # By way of negative numbers, which collide with none.
                memory.execute(f"UPDATE {table} SET line = 1 - line WHERE line > ?", (merge[9],))
                memory.execute(f"UPDATE {table} SET line = -line WHERE line < 0")
            assert verify(memory).findings
        memory.execute("ROLLBACK TO clean")
    assert tried


@pytest.mark.parametrize("shift", [1, 2, 15, -1, -2])
def test_a_byte_gone_over_from_salt_to_body_is_found(memory, shift):
    for seq, *_, salt, body in _rows(memory, "event"):
        if body is None:
            continue
        whole, border = salt + body, len(salt) + shift
        memory.execute("UPDATE event SET salt = ?, body = ? WHERE seq = ?", (whole[:border], whole[border:], seq))
        assert verify(memory).findings
        memory.execute("UPDATE event SET salt = ?, body = ? WHERE seq = ?", (salt, body, seq))


def test_a_number_of_arrival_far_away_costs_no_time(memory):
    memory.execute("UPDATE event SET seq = 4000000000000000000 WHERE seq = (SELECT max(seq) FROM event)")
    assert verify(memory).findings


@pytest.mark.parametrize(
    "text", ["[" * 50_000, '{"seqs":' + "[" * 50_000, '{"seqs":[[1],"x",null,3]}', "3", "null", ""]
)
def test_a_senseless_note_of_a_purge_is_a_finding(memory, text):
    memory.execute("UPDATE operation SET note = ? WHERE verb = 'purge'", (text,))
    assert verify(memory).findings


def test_a_senseless_first_payload_is_a_finding(memory):
    for body in (b"[" * 50_000, b"null", b"{}", b"\xff", b""):
        memory.execute("UPDATE event SET body = ? WHERE seq = 1", (body,))
        assert verify(memory).findings
    memory.execute("DELETE FROM project")
    assert verify(memory).findings


def test_findings_are_bounded(memory):
    memory.execute("UPDATE event SET actor = 'eve'")
    memory.execute("UPDATE operation SET actor = 'eve'")
    assert 40 < len(verify(memory).findings) <= 100
