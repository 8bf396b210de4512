"""`search` and `recent` over sessions: whose, which, how much of each; and an honest nothing."""

from __future__ import annotations

import json

import pytest
from contracts.written import NAMES, lines, place, said, session, take

from bede.answers.said import FEW
from bede.engines import tokens
from bede.errors import NotFound, UsageError
from bede.operations.ingest import ingest
from bede.operations.recent import recent
from bede.operations.search import search
from bede.operations.store import store


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _tell(home, project, name, *told):
    """Lay a session in which these things are said, by a person and the assistant in turn."""
    records = (
        said(name, number, text, project, by="user" if number % 2 else "assistant")
        for number, text in enumerate(told, 1)
    )
    place(home, name).write_bytes(lines(records))


def test_a_session_is_named_by_a_unique_beginning(home, project, context):
    for name in ("alpha-one", "alpha-two", "beta"):
        place(home, name).write_bytes(session(name, project))
    take(context)
    found = search(context, "word", session="be")
    assert {passage.session for passage in found.passages} == {"beta"}
    assert {turn.session for turn in recent(context, session="alpha-o").turns} == {"alpha-one"}
    for ask in (lambda name: search(context, "word", session=name), lambda name: recent(context, session=name)):
        with pytest.raises(NotFound, match="several sessions begin with 'alpha'") as several:
            ask("alpha")
        assert "alpha-one, alpha-two" in str(several.value.hint)
        with pytest.raises(NotFound, match="no session 'gamma'"):
            ask("gamma")
        with pytest.raises(NotFound, match="no session '%'"):
            ask("%")


def test_recent_turns_stand_as_their_session_has_them_and_sessions_by_time(home, project, context):
    """An agent may give a call the time when it ended, and what it says after it the time when it began."""
    moments = {"a": (10, 20, 40, 30, 50), "b": (15, 45, 35, 55)}
    for name, seconds in moments.items():
        told = (
            said(name, number, f"{name}{number}", project, timestamp=f"2026-01-01T00:00:{second}Z")
            for number, second in enumerate(seconds, 1)
        )
        place(home, name).write_bytes(lines(told))
    take(context)

    def newest(count):
        return [turn.text for turn in recent(context, turns_=count).turns]

    assert newest(30) == ["a1", "b1", "a2", "a3", "b2", "a4", "b3", "a5", "b4"]
    for count in range(1, 9):  # Wherever it begins, nothing between two turns of a session is missing.
        for name, seconds in moments.items():
            shown = [int(text[1:]) for text in newest(count) if text[0] == name]
            assert shown == list(range(len(seconds) + 1 - len(shown), len(seconds) + 1))


def test_a_whole_name_wins_over_longer_ones(home, project, context):
    for name in ("alpha", "alpha-two"):
        place(home, name).write_bytes(session(name, project))
    take(context)
    assert {turn.session for turn in recent(context, session="alpha").turns} == {"alpha"}


def test_an_agent_that_nobody_knows_is_told_and_one_that_only_stored_is_no_stranger(home, project, context):
    place(home, "s").write_bytes(session("s", project))
    take(context)
    store(context, summary="the word of the day", agent_id="ann")
    assert [item.agent_id for item in search(context, "word", agent="ann").results] == ["ann"]
    assert search(context, "word", agent="ann").passages == ()
    assert search(context, "word", agent="claude-code").passages
    for ask in (lambda: search(context, "word", agent="nobody"), lambda: recent(context, agent="nobody")):
        with pytest.raises(NotFound, match="agent 'nobody'") as unknown:
            ask()
        assert "claude-code" in str(unknown.value.hint)


def test_the_agent_has_two_names_but_is_one(context):
    store(context, summary="the word of the day", agent_id="ann")
    assert search(context, "word", agent_id="ann") == search(context, "word", agent="ann")
    with pytest.raises(UsageError, match="two agents"):
        search(context, "word", agent="ann", agent_id="bob")


@pytest.mark.parametrize(
    "filters",
    [
        {"in_": "turns", "kind": ["decision"]},
        {"in_": "turns", "task_id": "T-1"},
        {"session": "s", "labels": ["area:x"]},
        {"file": "a.py", "tags": ["t"]},
        {"in_": "memory", "session": "s"},
        {"in_": "memory", "git_branch": "main"},
    ],
)
def test_filters_that_leave_nothing_to_search_are_an_error(context, filters):
    with pytest.raises(UsageError, match="ask for"):
        search(context, "word", **filters)


def test_the_status_counts_what_is_stored_and_what_stands_in_no_window_yet(home, project, context):
    place(home, "a").write_bytes(session("a", project, 4))
    place(home, "b").write_bytes(session("b", project, 2))
    take(context)
    told = ingest(context, status=True)
    assert (told.sessions, sum(row.sessions for row in told.stored)) == (2, 2)
    assert sum(row.turns for row in told.stored) == sum(row.waiting for row in told.stored) == 6
    assert sum(row.windows for row in told.stored) == 0
    place(home, "c").write_bytes(session("c", project, 80))
    take(context)
    told = ingest(context, status=True)
    assert sum(row.windows for row in told.stored) > 0
    assert sum(row.waiting for row in told.stored) == 0


@pytest.mark.parametrize("budget", [600, 1200, 2000, 4200])
def test_long_answers_share_the_budget_and_show_what_was_asked_for(home, project, context, budget):
    for number in range(8):
        filler = "\n".join(f"Line {number}x{line} is about nothing in particular." for line in range(120))
        text = f"{filler}\nThe ribbon of part {number} is painted magenta.\n{filler}"
        _tell(home, project, f"s{number}", f"Look at part {number}.", text)
    take(context)
    found = search(context, "which ribbon is painted magenta?", in_="turns", order="rank", budget=budget)
    assert tokens.count(json.dumps(found.to_json(), ensure_ascii=False)) <= budget
    assert len(found.passages) >= min(8, budget // 400)
    assert len(found.passages) + found.passages_left_out == 8
    for passage in found.passages:
        answer = next(turn for turn in passage.turns if turn.turn == passage.best)
        assert "is painted magenta." in answer.text
        assert answer.left_out
    sizes = [sum(len(turn.text) for turn in passage.turns) for passage in found.passages]
    assert sizes[0] >= sizes[-1]


def test_what_fits_is_whole(home, project, context):
    said_ = "The ribbon is magenta.\n" + "It dries slowly. " * 40
    _tell(home, project, "s", "What about the ribbon?", said_.strip())
    take(context)
    (passage,) = search(context, "ribbon", in_="turns").passages
    assert said_.strip() in [turn.text for turn in passage.turns]
    assert all(turn.left_out is None for turn in passage.turns)


def test_a_question_without_names_that_nobody_spoke_of_gets_nothing(home, project, context):
    talk = [f"Rotate picture {number}, please." if number % 2 else f"Rotated {number}." for number in range(1, 90)]
    _tell(home, project, "s", *talk)
    take(context)
    assert search(context, "how do we rotate kafka certificates?").passages == ()
    assert search(context, "rotate the picture").passages


def test_a_turn_is_shown_as_it_was_said_and_not_as_it_is_stored(home, project, context, bede):
    _tell(home, project, "s", "What about the ribbon?", "It is magenta.")
    take(context)
    turn = recent(context).turns[-1]
    page = bede("--pretty", "show", turn.id, cwd=project).out
    assert "It is magenta." in page
    assert "assistant" in page
    assert "parts" not in page
    assert "1767225602" not in page


WORDS = "the rate of calls is limited by the gateway, which says so in a header that no client reads. "


def _fill(context, many=7):
    for number in range(many):
        store(
            context, kind="decision", key=f"rate.{number}", value=str(number), rationale=WORDS * number,
            summary=f"Number {number}: {WORDS}" * (1 + number % 3), agent_id="ann", task_id=f"task-{number}",
        )  # fmt: skip


def _cost(result):
    return tokens.count(json.dumps(result.to_json(), ensure_ascii=False))


@pytest.mark.parametrize("budget", [150, 180, 210, 230, 260, 300, 400, 1000])
@pytest.mark.parametrize("query", ["rate", ""])
def test_whoever_goes_on_while_there_is_more_comes_to_an_end(context, budget, query):
    _fill(context)
    seen, cursor, rounds = [], "", 0
    while rounds == 0 or cursor:
        page = search(context, query, kind=["decision"], top_k=3, budget=budget, cursor=cursor)
        assert _cost(page) <= budget
        assert page.more == bool(page.cursor) and page.cursor != cursor
        assert len(page.results) + page.left_out <= 3
        seen += page.results
        cursor, rounds = page.cursor, rounds + 1
        assert rounds <= 7
    assert len({item.id for item in seen}) == len(seen)
    if budget >= 260:
        assert len(seen) == 7


def test_of_a_memory_that_has_no_room_the_beginning_is_shown_and_how_much_is_not(context):
    _fill(context)
    [whole] = search(context, "rate", task_id="task-5").results
    page = search(context, "rate", task_id="task-5", budget=260)
    [short] = page.results
    assert (short.id, page.left_out, page.more) == (whole.id, 0, False)
    assert short.summary.endswith("…") and whole.summary.startswith(short.summary[:-1])
    missing = len(json.dumps(whole.to_json())) - len(json.dumps(short.to_json(), ensure_ascii=False))
    assert abs(short.left_out - missing) <= 20  # the mark itself, and the number


@pytest.mark.parametrize("query", ["rate " * 1900, "資料" * 4000, '\x07\n"' * 3000, "rate limit"])
@pytest.mark.parametrize("budget", [150, 300, 700])
@pytest.mark.parametrize("where", ["all", "memory", "turns"])
def test_a_long_query_does_not_break_the_budget(home, project, context, query, budget, where):
    _fill(context, 3)
    _tell(home, project, "s", f"Is the rate limited? {WORDS}", WORDS * 20)
    take(context)
    found = search(context, query, in_=where, budget=budget)
    assert _cost(found) <= budget
    assert found.query == query or (found.query.endswith("…") and query.startswith(found.query[:-1]))
    assert (found.query == query) == (query == "rate limit")
    assert search(context, query, in_=where).query == query


@pytest.mark.parametrize("budget", [150, 250, 600])
def test_a_list_of_turns_holds_the_budget_as_well(home, project, context, budget):
    _tell(home, project, "s", *(f"{number}: {WORDS * number}" for number in range(1, 9)))
    take(context)
    found = search(context, session="s", budget=budget)
    assert _cost(found) <= budget
    assert len(found.passages) + found.passages_left_out == 8


@pytest.mark.parametrize("budget", [200, 260, 400, 1000])
@pytest.mark.parametrize("text", [WORDS * 60, "資料を見る。" * 900, 'line\n\t"x"\n' * 500, "x" * 9000])
def test_of_recent_turns_the_newest_is_always_there_and_the_budget_holds(home, project, context, text, budget):
    _tell(home, project, "s", "before", text)
    take(context)
    found = recent(context, budget=budget)
    assert _cost(found) <= budget
    assert found.turns and found.turns[-1].text[:FEW] == text[:FEW] and found.turns[-1].left_out
    assert len(found.turns) + found.left_out == 2
