"""Laws of names: canonical forms, hashes, times, and the shapes that ids must have."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bede.errors import BedeError, Corrupt, UsageError
from bede.identity import (
    DEPTH,
    SALT,
    ZERO,
    canonical,
    check_agent,
    check_branch,
    check_label,
    check_task,
    digest,
    event_id,
    instant,
    operation_hash,
    timestamp,
)

NOW = 1_767_323_045_000_000
FIRST = round(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
LAST = round(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1_000_000 + 999_999

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
hexes = st.binary(min_size=32, max_size=32).map(bytes.hex)
lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)


@given(values)
@example(-0.0)
@example("\0\x1b]0;x\x07\u202e\ufeff\u2028")
@example(2**4000)
def test_what_is_read_back_is_what_was_written(value):
    form = canonical(value)
    assert json.loads(form) == value
    assert canonical(json.loads(form)) == form
    assert b"\n" not in form


@given(st.dictionaries(texts, values, min_size=2, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value, chance):
    keys = list(value)
    chance.shuffle(keys)
    assert canonical({key: value[key] for key in keys}) == canonical(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        {"a": [1, float("nan")]},
        "\ud800",
        {"\udfff": 1},
        ["x", "a\udc80b"],
        10**5000,
        {1, 2},
        b"bytes",
        object(),
        {(1, 2): 3},
        {"a": 1, 2: 3},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_form_is_refused_with_a_reason(value):
    with pytest.raises(UsageError) as told:
        canonical(value)
    assert told.value.message


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (1, inner)])
def test_nesting_is_bounded_and_never_exhausts_the_stack(wrap):
    value: object = 1
    for _ in range(DEPTH):
        value = wrap(value)
    assert canonical(value)
    with pytest.raises(UsageError):
        canonical(wrap(value))
    for _ in range(200_000):
        value = wrap(value)
    with pytest.raises(UsageError):
        canonical(value)
    while isinstance(value, (list, dict, tuple)):  # Undone by hand: freeing it would recurse on some versions.
        value = value["a"] if isinstance(value, dict) else value[-1]


def test_a_digest_is_that_of_salt_and_body():
    assert digest(b"s" * SALT, b"{}") == hashlib.sha256(b"s" * SALT + b"{}").digest()


@given(lines, st.lists(hexes, max_size=2), lines, lines, st.integers(FIRST, LAST), st.binary(min_size=32, max_size=32))
def test_an_event_id_can_be_recomputed_with_a_few_lines(kind, parents, actor, source, happened, payload):
    form = ["bede event 1", f"kind {kind}", *(f"parent {parent}" for parent in parents)]
    form += [f"actor {actor}", f"source {source}", f"happened {happened}", f"payload {payload.hex()}", ""]
    expected = hashlib.sha256("\n".join(form).encode()).digest()
    assert event_id(kind, parents, actor, source, happened, payload) == expected


fields = st.tuples(lines, st.lists(hexes, max_size=2), lines, lines, st.integers(FIRST, LAST), st.just(b"p" * 32))


@given(fields, fields)
def test_different_facts_have_different_ids(one, other):
    assert (event_id(*one) == event_id(*other)) == (one == other)


@given(hexes, st.integers(1, 10**9), lines, lines, st.integers(FIRST, LAST), lines, st.lists(hexes, max_size=4))
def test_an_operation_hash_can_be_recomputed_with_a_few_lines(before, number, verb, actor, at, note, events):
    moves = f"main {ZERO} {before}\nidea - {before}\n"
    form = ["bede operation 1", f"before {before}", f"number {number}", f"verb {verb}", f"actor {actor}", f"at {at}"]
    form += [f"note {note}", *moves.splitlines(), *(f"event {event}" for event in events), ""]
    expected = hashlib.sha256("\n".join(form).encode()).digest()
    assert operation_hash(before, number, verb, actor, at, note, moves, events) == expected


@given(st.integers(FIRST, LAST))
@example(FIRST)
@example(LAST)
@example(-1)
@example(0)
def test_a_time_is_read_back_as_it_was_written(moment):
    text = timestamp(moment)
    assert instant(text, NOW) == moment
    assert len(text) == 27
    assert text.endswith("Z")


@given(st.lists(st.integers(FIRST, LAST), min_size=2, max_size=5))
def test_times_sort_as_text(moments):
    assert sorted(map(timestamp, moments)) == [timestamp(moment) for moment in sorted(moments)]


@pytest.mark.parametrize("moment", [FIRST - 1, LAST + 1, 2**62, -(2**62), 2**63 - 1])
def test_a_time_that_no_calendar_has_is_damage(moment):
    with pytest.raises(Corrupt):
        timestamp(moment)


@given(st.integers(0, 999_999_999), st.sampled_from("smhdw"))
def test_an_age_counts_back_from_now_and_stays_a_time(count, unit):
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]
    found = instant(f"{count}{unit}", NOW)
    assert found == max(NOW - count * seconds * 1_000_000, FIRST)
    assert timestamp(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", NOW),
        ("2026-01-02T03:04:05", NOW),
        (" 2026-01-02 03:04:05 ", NOW),
        ("2026-01-02T04:04:05+01:00", NOW),
        ("2026-01-02T03:04:05.000001Z", NOW + 1),
        ("2026-01-02", NOW - (3 * 3600 + 4 * 60 + 5) * 1_000_000),
        ("1970-01-01", 0),
        ("0s", NOW),
        ("1w", NOW - 7 * 86400 * 1_000_000),
    ],
)
def test_times_that_people_write_are_read(text, expected):
    assert instant(text, NOW) == expected


@given(texts)
@example("")
@example("3 d")
@example("-3d")
@example("3y")
@example("2026-02-30")
@example("2026-01-02T25:00:00")
@example("9999-12-31T23:59:59-23:59")
@example("0001-01-01T00:00:00+23:59")
@example("1234567890d")
@example("²d")
def test_what_is_no_time_is_refused_and_what_is_one_can_be_written(text):
    try:
        found = instant(text, NOW)
    except UsageError:
        return
    assert abs(found - NOW) <= LAST - FIRST + 2 * 86_400_000_000


ROUGH = ["", " ", "a b", "a\nb", "a\n", "\n", "\0", "a\0", "\x1b[31m", "‮", "-x", ".x", "a" * 129, "\ud800", "​a"]


@pytest.mark.parametrize("check", [check_agent, check_task, check_label, check_branch])
@pytest.mark.parametrize("text", ROUGH)
def test_rough_names_are_refused(check, text):
    with pytest.raises(UsageError):
        check(text)


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (check_agent, ["a", "codex-1", "ada@host:2", "a" * 128, "Zoë", "資料", "7", "a.b_c+d"]),
        (check_task, ["T-1", "feat/login#2", "a:b", "a" * 128, "任務-1", "x@y+z"]),
        (check_label, ["dep:sqlite", "topic:auth", "x_y-1:A/b#c.d@e+f", "a:" + "b" * 62]),
        (check_branch, ["main", "idea", "feat/x.y+z", "Ünï", "b/c/d", "abc", "dead-beef", "v1.0", "0123g"]),
    ],
)
def test_good_names_are_returned_as_they_are(check, good):
    for text in good:
        assert check(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "HEAD",
        "head",
        "Sessions/x",
        "coordination",
        "worktrees/a",
        "a..b",
        "x.lock",
        "x.",
        "a//b",
        "/a",
        "a/",
        "~",
        "a~1",
        "dead",
        "0123",
        "a" * 64,
        "deadbeef" * 8,
        "a/../b",
        "a@{1}",
        "a:b",
        "a^",
        "b" * 129,
    ],
)
def test_branch_names_that_mean_something_else_are_refused(text):
    with pytest.raises(UsageError):
        check_branch(text)


@pytest.mark.parametrize("text", ["dep", "dep:", ":x", "Dep:x", "1:x", "dep:a b", "dep:" + "x" * 61, "a:b:c"])
def test_malformed_labels_are_refused(text):
    with pytest.raises(BedeError):
        check_label(text)


@given(st.text(max_size=150))
def test_a_name_that_is_let_through_fits_on_its_line(text):
    for check in (check_agent, check_task, check_label, check_branch):
        try:
            check(text)
        except UsageError:
            continue
        assert text.split() == [text]
        assert text.isprintable()
        assert len(text) <= 128
