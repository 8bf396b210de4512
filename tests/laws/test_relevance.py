"""Which turns answer a question: laws of the second stage, and what it is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bede.answers.quoting import quote
from bede.answers.relevance import Turn, passages, rank
from bede.answers.terms import Corpus, forms, telling
from bede.projections import words
from bede.projections.words import Term

WORDS = (
    "cache",
    "theme",
    "parser",
    "commit",
    "released",
    "releasing",
    "went",
    "go",
    "toolText",
    "2024",
    "設定",
    "검색",
)


def corpus(turns: Sequence[Turn]) -> Corpus:
    """Count as the index would, a turn a row."""
    bodies = [words.tokens(turn.text) for turn in turns]
    stems = [{words.stem(token) if token.isascii() else token for token in body} for body in bodies]

    def count(term: Term) -> int:
        if term.stem:
            return sum(term.stem in found for found in stems)
        return sum(term.text in words.fold(turn.text) for turn in turns)

    return Corpus(len(turns), count, 80.0)


def session(*texts: str, number: int = 0, by: str = "assistant") -> list[Turn]:
    """Return the turns of a session."""
    return [Turn(number * 1000 + place, number, place, text, by, len(text) // 4) for place, text in enumerate(texts)]


FILLER = [
    turn
    for number in range(50, 70)
    for turn in session(f"Nothing of note in part {number}.", "Reading on.", number=number)
]

some_turns = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.sampled_from(WORDS), min_size=1, max_size=8)), min_size=1, max_size=20
).map(
    lambda rows: [
        Turn(place, number, place, " ".join(said), "assistant", len(said))
        for place, (number, said) in enumerate(sorted(rows, key=lambda row: row[0]))
    ]
)
some_question = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


@given(some_turns, some_question, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_repetition_of_the_candidates_do_not_matter(turns: list[Turn], asked: str, chance: Random) -> None:
    shuffled = [*turns, *turns[::2]]
    chance.shuffle(shuffled)
    known = corpus(turns)
    assert rank(asked, shuffled, known) == rank(asked, turns, known)
    assert passages(asked, shuffled, known, 4, 8) == passages(asked, turns, known, 4, 8)


@given(some_turns, some_question)
@settings(max_examples=60, deadline=None)
def test_what_shares_no_word_and_stands_apart_is_never_an_answer(turns: list[Turn], asked: str) -> None:
    known = corpus([*turns, *FILLER])
    alone = rank(asked, turns, known, 100)
    among = rank(asked, [*turns, *FILLER], known, 100)
    assert among == alone


@given(some_turns, some_question, st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_best_first_and_equals_in_order(turns: list[Turn], asked: str, limit: int) -> None:
    found = rank(asked, turns, corpus(turns), limit)
    assert len(found) <= limit
    keys = [(-one.score, one.turn.session, one.turn.place) for one in found]
    assert keys == sorted(keys)


@given(some_turns, some_question, st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_passages_are_runs_of_one_session_and_share_no_turn(turns: list[Turn], asked: str, size: int) -> None:
    made = passages(asked, turns, corpus(turns), 100, size)
    assert all(passage.best in passage.turns for passage in made)
    assert [passage.score for passage in made] == sorted((passage.score for passage in made), reverse=True)
    found = [passage.turns for passage in made]
    ids = [turn.id for passage in found for turn in passage]
    assert len(ids) == len(set(ids))
    for passage in found:
        assert len({turn.session for turn in passage}) == 1
        assert [turn.place for turn in passage] == list(range(passage[0].place, passage[0].place + len(passage)))
        assert sum(turn.size for turn in passage) < size + max(turn.size for turn in passage)
    answers = {one.turn for one in rank(asked, turns, corpus(turns), 100)}
    assert answers <= {turn for passage in found for turn in passage}
    assert all(answers.intersection(passage) for passage in found)


@given(some_turns, st.sampled_from(WORDS), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_to_one_word_only_what_holds_it_is_an_answer(turns: list[Turn], asked: str, size: int) -> None:
    known = corpus(turns)
    alone = [turn for turn in turns if rank(asked, [turn], known)]
    assert all(one.turn in alone for one in rank(asked, turns, known, 100))
    assert all(passage.best in alone for passage in passages(asked, turns, known, 100, size))


@given(st.text(max_size=200), st.lists(st.text(max_size=200), max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_asked_and_searched(asked: str, texts: list[str]) -> None:
    turns = session(*texts)
    assert len(rank(asked, turns, corpus(turns))) <= len(turns)


@given(st.text(alphabet="aeiybcdlnrst", min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_every_word_is_found_by_its_stem(word: str) -> None:
    if word in words.STOP:
        return
    turns = session(f"so: {word}.", "other")
    assert [one.turn.place for one in rank(word, turns, corpus(turns))][:1] == [0]


def test_nothing_relevant_gives_nothing() -> None:
    turns = [*session("The parser reads the file.", "All tests pass."), *FILLER]
    assert rank("zeppelin moorings", turns, corpus(turns)) == []
    assert passages("zeppelin moorings", turns, corpus(turns)) == []
    assert rank("", turns, corpus(turns)) == []
    assert rank("parser", [], corpus(turns)) == []


def test_a_name_that_nobody_mentions_is_not_answered_by_the_other_words() -> None:
    turns = [*session("The docs are deployed by the workflow.", "Deployed the docs again."), *FILLER]
    assert rank("Into which Kubernetes namespace are the docs deployed?", turns, corpus(turns)) == []
    assert rank("How are the docs deployed?", turns, corpus(turns))


def test_everyday_and_question_words_do_not_answer() -> None:
    turns = [*session("What did we do? We did what you said.", "The lexer lost its cache."), *FILLER]
    found = rank("What did we do about the cache of the lexer?", turns, corpus(turns))
    assert found[0].turn.place == 1


def test_an_answer_that_repeats_nothing_is_carried_by_its_question() -> None:
    near = session("Why is the ribbon painted in magenta?", "Because the printer was out of ink.")
    far = session("Something else.", "Because of the weather.", number=1)
    found = rank("reason for the magenta ribbon", [*near, *far, *FILLER], corpus([*near, *far, *FILLER]))
    assert [one.turn for one in found] == near


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("agent name", "see `getAgentName` there"),
        ("getAgentName", "call getAgentName()"),
        ("getagentname", "call getAgentName()"),
        ("HTML parser", "class HTMLParser"),
        ("NG8002", "error NG8002: unknown property"),
        ("--acc-speed", "pass --acc-speed=3"),
        ("コマンドの削除", "不要なコマンドを削除しました"),
        ("서브에이전트 목록", "현재 서브에이전트 7개"),
        ("為什麼推薦這個方案", "推薦的方案如下"),
        ("Größe", "die GRÖSSE stimmt"),
        ("colour", "the color is wrong"),
        ("when did she go", "she went home"),
        ("réglage", "le reglage \u2019fin\u2019"),
    ],
)
def test_other_forms_scripts_and_parts_of_identifiers(asked: str, text: str) -> None:
    turns = [*session("unrelated opening"), *session(text, number=1), *FILLER]
    assert [one.turn.text for one in rank(asked, turns, corpus(turns))] == [text]


def test_the_speaker_who_is_named_comes_first() -> None:
    turns = [
        *session("Ann: I painted a lake.", "Bob: I painted a lake, Ann."),
        *session("Bob: Hello.", "Ann: Hello.", number=1),
    ]
    for name, best in (("Ann", 0), ("Bob", 1)):
        assert rank(f"What lake did {name} get painted?", turns, corpus(turns))[0].turn.place == best


def test_what_was_said_twice_is_answered_once() -> None:
    turns = [*session("Bump the parser."), *session("Bump the parser.", "Done.", number=1), *FILLER]
    assert [one.turn.text for one in rank("parser", turns, corpus(turns))].count("Bump the parser.") == 1


@pytest.mark.parametrize("asked", ["remember", "remember?", "c++", "cartTotal", "src/cart.py:42", "Größe", "запомни"])
def test_what_stands_beside_one_word_or_beside_a_repetition_of_it_is_no_answer(asked: str) -> None:
    said = f"Please mind {asked} from now on"
    turns = [
        *session(said, "I look at the tests.", "Done as you say.", number=1),
        *session("Hello.", said, "I ask git instead.", number=2),
        *session("Nothing of the cart, of C or src.", number=3),
        *FILLER,
    ]
    known = corpus(turns)
    assert [one.turn for one in rank(asked, turns, known)] == [turns[0]]
    (passage,) = passages(asked, turns, known)
    assert passage.best == turns[0]
    assert set(turns[:3]) == set(passage.turns)


@pytest.mark.parametrize("name", ["__file__", "__main__", "print_speed", "print-speed", "context.Context", "src/x.py"])
@pytest.mark.parametrize("mark", ["", "?"])
def test_a_name_is_answered_by_the_turns_that_hold_it_as_it_stands(name: str, mark: str) -> None:
    parts = "The main file of the context prints src at full speed, main file, print, h 2. "
    told = session(f"Mind that {name} is set. " + "Else nothing. " * 40, number=2)
    turns = [*session(*(f"{parts * 2} {number}" for number in range(8)), number=1), *told, *FILLER]
    assert [one.turn for one in rank(name + mark, turns, corpus(turns))] == told


@pytest.mark.parametrize("sign", ["c++", "C#", "-c", "=>", "$1"])
def test_a_sign_has_no_parts_that_answer(sign: str) -> None:
    turns = [*session("run python3 -d 'print(1)' with c, a C compiler and 1 file", number=1), *FILLER]
    assert not rank(sign, turns, corpus(turns))


def test_what_is_shown_of_a_long_turn_holds_the_name_that_was_asked_for() -> None:
    line = "We looked at the context of the request and at its main file.\n"
    tell = telling("context.Context", corpus(session(line)))
    shown, missing = quote(line * 60 + "Then context.Context came.\n" + line * 60, tell, 900)
    assert missing and "context.Context came" in shown


def test_the_parts_of_a_name_are_no_answer_to_it_and_the_name_is_one_to_its_parts() -> None:
    turns = [*session("The total of a cart.", number=1), *session("See cartTotal.", number=2), *FILLER]
    assert [one.turn for one in rank("cartTotal", turns, corpus(turns))] == [turns[1]]
    assert {one.turn for one in rank("cart total", turns, corpus(turns))} == set(turns[:2])


def test_a_sentence_without_spaces_is_answered_by_what_follows_too() -> None:
    turns = [*session("為什麼推薦這個方案", "It is the cheaper one.", number=1), *FILLER]
    assert [one.turn for one in rank("為什麼推薦這個方案", turns, corpus(turns))] == turns[:2]


@pytest.mark.parametrize(("size", "between"), [(60, 1), (60, 2), (1, 1)])
def test_an_answer_to_what_was_asked_elsewhere_too_is_shown_with_its_question(size: int, between: int) -> None:
    asked = "Which harbour does the ferry use?"
    steps = [f"Reading chart {number}." for number in range(between - 1)]
    turns = [
        *session(asked, "The northern one.", number=1),
        *session(asked, *steps, "The southern one: " + "it has the deeper water. " * 20, number=2),
        *FILLER,
    ]
    again, answer = turns[2], turns[2 + between]
    found = passages("which harbour for the ferry?", turns, corpus(turns), 15, size)
    assert found[0].best == turns[0]
    (second,) = [passage for passage in found if answer in passage.turns]
    assert second.best == (answer if size == 1 else again)
    assert [passage.best for passage in found].count(again) == (size > 1)


def test_what_answers_is_not_the_turn_beside_one_that_holds_it_all() -> None:
    turns = [
        *session("The ferry uses the northern harbour.", "I see.", number=1, by="injected"),
        *session("Hello.", number=2),
        *FILLER,
    ]
    turns[1] = turns[1]._replace(by="assistant")
    (passage,) = passages("ferry harbour", turns, corpus(turns), 15, 60)
    assert (passage.best, passage.turns) == (turns[0], tuple(turns[:2]))


def test_what_answers_may_stand_between_those_that_hold_a_part_each() -> None:
    turns = [*session("Of the harbour.", "The northern one it is.", "Of the ferry.", number=1), *FILLER]
    (passage,) = passages("ferry harbour", turns, corpus(turns), 15, 60)
    assert passage.best == turns[1]


def test_first_and_last_ask_for_early_and_late_turns() -> None:
    turns = [*session("The colour is off.", *map("Hm. {}".format, range(6)), "Off is the colour."), *FILLER]
    places = [
        rank(f"{which} time the colour was off", turns, corpus(turns))[0].turn.place for which in ("first", "last")
    ]
    assert places == [0, 7]


def test_what_was_laid_into_the_context_comes_after_what_was_said() -> None:
    turns = [
        *session("The retry limit is nine.", by="injected"),
        *session("The retry limit: nine.", number=1),
        *FILLER,
    ]
    assert [one.turn.by for one in rank("retry limit", turns, corpus(turns))] == ["assistant", "injected"]


def test_instructions_alone_answer_only_what_they_know_most_of() -> None:
    laid = session("Skills: use a tool to build; keep going where one is missing.", number=1, by="injected")
    turns = [*laid, *session("The cart module has no tests.", number=2), *FILLER]
    assert rank("why did the release build break?", turns, corpus(turns)) == []
    assert rank("which tool is used where one is missing?", turns, corpus(turns))[0].turn == laid[0]
    told = [*turns, *session("The build runs out of memory.", number=3)]
    assert rank("why did the release build break?", told, corpus(told))[0].turn == told[-1]


def test_forms_are_asked_of_the_index_in_its_own_stems() -> None:
    for term in words.question("she went to the colour shelves").terms:
        assert forms(term)[0] == term
        assert all(re.fullmatch("[a-z]+", other.stem) and other.tokens == (other.stem,) for other in forms(term)[1:])
    assert {form.stem for form in forms(Term("went", "went", ("went",)))} == {"went", "go", "gone"}


def test_what_a_person_pasted_comes_after_what_was_made_of_it() -> None:
    log = "error: the parser lost its cache\n" + "trace of nothing in particular " * 60
    turns = [
        *session("Look.", number=1),
        *session(log, number=2, by="human"),
        *session("The parser lost its cache, so an error came.", number=3),
        *FILLER,
    ]
    found = rank("parser cache error", turns, corpus(turns))
    assert [one.turn.session for one in found][:2] == [3, 2]


def test_what_is_nearly_the_same_is_answered_once() -> None:
    said = " ".join(f"word{number}" for number in range(40))
    turns = [*session(f"The parser: {said}."), *session(f"The parser: {said}. Again.", number=1), *FILLER]
    assert len(rank("parser", turns, corpus(turns))) == 1
    other = " ".join(f"other{number}" for number in range(40))
    turns = [*session(f"The parser: {said}."), *session(f"The parser: {other}.", number=1), *FILLER]
    assert len(rank("parser", turns, corpus(turns))) == 2


def test_a_question_without_names_is_not_answered_by_one_of_its_few_words() -> None:
    turns = [*session("Please rotate the picture.", *map("Rotated {}.".format, range(20))), *FILLER]
    assert rank("how do we rotate kafka certificates?", turns, corpus(turns)) == []
    assert passages("how do we rotate kafka certificates?", turns, corpus(turns)) == []
    assert rank("how do we rotate the picture?", turns, corpus(turns))
    assert rank("rotate", turns, corpus(turns))


def test_a_long_question_may_say_it_in_other_words() -> None:
    turns = [*session("The picture stands upside down; rotate it."), *FILLER]
    asked = "somebody complained that a scanned photograph came out mirrored or flipped and we had to rotate the thing"
    assert rank(asked, turns, corpus(turns))


def test_what_an_engine_finds_near_counts_only_where_it_stands_out() -> None:
    turns = [
        *session("Why does the theme parser fail?", "The theme parser fails on tabs.", number=1),
        *session("Colours of the appearance reader broke because of a control character.", number=2),
        *FILLER,
    ]
    known, far = corpus(turns), turns[2].id
    asked = "why does the theme parser fail?"

    def answers(meant: dict[int, float]) -> list[int]:
        return [one.best.id for one in passages(asked, turns, known, 15, 1, meant)]

    plain = answers({})
    assert far not in plain
    assert answers({turn.id: 2.9 for turn in turns}) == plain
    assert [turn for turn in answers({far: 6.0}) if turn != far] == plain
    assert far in answers({far: 6.0})
    assert answers({far: 600.0}) == answers({far: 6.0})
    assert passages("kubernetes namespaces", turns, known, 15, 1, {far: 9.0}) == []


def test_an_order_to_another_agent_comes_after_what_was_made_of_it() -> None:
    order = "The parser and its cache: find out. " + "Mind what else there is in all of it. " * 40
    report = "The parser and its cache: no fault. " + "Nothing else in there was of any note. " * 40
    for by, best in (("delegated", 2), ("assistant", 1)):
        turns = [*session(order, number=1, by=by), *session(report, number=2), *FILLER]
        assert rank("parser cache", turns, corpus(turns))[0].turn.session == best


SAID = "The command, file, module or function of the parser cache"


@pytest.mark.parametrize(
    ("asked", "deed"),
    [
        ("Which command cleared the parser cache?", "[Bash] rm -r build (exit 0)"),
        ("How was the parser cache built again?", "[shell] make all (exit 2)"),
        ("With what command do I clear the parser cache?", "Do this:\n```bash\nrm -r build\n```"),
        ("Where was the parser cache fixed?", "[Edit] src/main.py"),
        ("Which file has the parser cache in it?", "[str_replace_editor] src/main.py"),
        ("What module was the parser cache moved to?", "[shell] apply_patch << 'PATCH' src/main.py PATCH"),
        ("In what function is the parser cache?", "Put it here:\n```python:src/main.py\npass\n```"),
    ],
)
def test_who_asks_for_a_deed_gets_the_turn_that_did_it_before_one_that_speaks_of_it(asked: str, deed: str) -> None:
    def best(asked: str, by: str = "assistant") -> int:
        turns = [*session(f"{SAID}.\nOf no use."), *session(f"{SAID}.\n{deed}", number=1, by=by), *FILLER]
        return rank(asked, turns, corpus(turns))[0].turn.session

    assert best(asked) == 1
    assert best("Tell about the parser cache.") == best(asked, by="human") == 0


def test_a_list_of_things_to_do_changes_no_file() -> None:
    turns = [*session(f"{SAID}.\nNothing."), *session(f"{SAID}.\n[TodoWrite] Next", number=1), *FILLER]
    assert rank("Which file has the parser cache?", turns, corpus(turns))[0].turn.session == 0


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("cache " + "what where " * 100_000, "cache"),
        ("cache " + "how to " * 100_000, "cache"),
        ("which file: cache", "file cache" + "\n" * 20_000),
        ("which file: cache", "file cache\n[" + "edit" * 5_000),
        ("which command: cache", "command cache\n" + " " * 20_000),
    ],
)
def test_deeds_are_looked_for_in_any_text(asked: str, text: str) -> None:
    turns = [*session(text), *FILLER]
    assert [one.turn.session for one in rank(asked, turns, corpus(turns))] == [0]
