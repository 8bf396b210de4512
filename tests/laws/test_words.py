"""Laws of folding, tokens, stems and the reading of a query, held against random text and against FTS5 itself."""

from __future__ import annotations

import re
import sqlite3
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bede.projections import words

#: Every script a memory may hold, with the characters that make trouble: marks, joiners, jamo, symbols, controls.
MIXED = st.text(
    st.one_of(
        st.sampled_from("aeiou bcd XYZ 019 _-./:+#$%&*()[]{}<>|~'\"`\n\t"),
        st.sampled_from("é ß İ ı ﬁ Å e\u0301 資料庫登录 クッキーが か\u3099 로그인 스크립트 สวัสดี हिन्दी שלום مرحبا"),
        st.sampled_from("🦊 👩\u200d💻 🇩🇪 ❤\ufe0f ½ ² ™ → … “ ” 。 、"),
        st.characters(),
    ),
    max_size=60,
)
LATIN_AND_CO = st.text(st.sampled_from("aeno éüñçåộ ệ ǖ 로그인갂 がぱバ ああ資"), max_size=40)
WORDS = st.from_regex(r"[a-z]{1,6}(s|es|ed|ing|ly|ational|ization|fulness|ousness|iveness|ies|e|y|ll)?", fullmatch=True)


@given(MIXED, MIXED)
def test_folding_goes_character_by_character(left: str, right: str) -> None:
    assert words.fold(left + right) == words.fold(left) + words.fold(right)


@given(MIXED)
def test_folding_twice_changes_nothing(text: str) -> None:
    assert words.fold(words.fold(text)) == words.fold(text)


@given(MIXED)
def test_folding_leaves_no_upper_case_no_line_break_and_nothing_that_cannot_be_stored(text: str) -> None:
    folded = words.fold(text)
    folded.encode()
    assert folded == folded.casefold()
    assert not re.search(r"[\n\r\t\u2028\ufeff\u200b]", folded)
    assert words.LONG not in folded


@given(LATIN_AND_CO)
def test_composed_and_decomposed_text_fold_to_the_same(text: str) -> None:
    forms = {words.fold(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Café", "cafe"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ＡＢＣ", "abc"),
        ("ﬁle", "file"),
        ("pass\u200bword", "password"),
    ],
)
def test_what_a_reader_takes_for_the_same_folds_to_the_same(text: str, folded: str) -> None:
    assert words.fold(text) == folded


@given(MIXED, st.data())
def test_tokens_of_a_substring_are_tokens_of_the_text_but_for_its_ends(text: str, data: st.DataObject) -> None:
    folded = words.fold(text)
    start = data.draw(st.integers(0, len(folded)))
    end = data.draw(st.integers(start, len(folded)))
    inner = words.pieces(folded[start:end])[1:-1]
    outer = words.pieces(folded)
    assert any(outer[place : place + len(inner)] == inner for place in range(len(outer) - len(inner) + 1))


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_and_other_text_are_cut_by_one_rule(text: str) -> None:
    folded = words.fold(text)
    assert words.pieces(folded + " 資") == [*words.pieces(folded), "資"]


@given(MIXED)
def test_every_token_stands_in_the_folded_text(text: str) -> None:
    folded = words.fold(text)
    assert all(token in folded for token in words.pieces(folded))
    assert all(token and not any(char.isspace() for char in token) for token in words.tokens(text))


@given(MIXED)
def test_no_letter_and_no_doubled_symbol_is_lost(text: str) -> None:
    folded = words.fold(text)
    kept = "".join(words.pieces(folded))
    assert [char for char in folded if char.isalnum()] == [char for char in kept if char.isalnum()]


@pytest.fixture(scope="module")
def porter() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE word USING fts5(text, content='', tokenize='porter unicode61')")
    connection.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(word, instance)")
    return connection


@given(st.lists(WORDS, min_size=1, max_size=30, unique=True))
def test_stems_are_those_of_the_index(porter: sqlite3.Connection, some: list[str]) -> None:
    porter.execute("INSERT INTO word (word) VALUES ('delete-all')")
    porter.executemany("INSERT INTO word (rowid, text) VALUES (?, ?)", enumerate(some))
    stems = dict(porter.execute("SELECT doc, term FROM stem").fetchall())
    assert {word: words.stem(word) for word in some} == {word: stems[place] for place, word in enumerate(some)}


@given(WORDS)
def test_a_stem_but_for_its_last_letter_begins_the_word(word: str) -> None:
    assert word.startswith(words.stem(word)[:-1])


@given(MIXED)
def test_any_query_can_be_read(query: str) -> None:
    asked = words.question(query)
    assert len(asked.terms) <= 40
    assert all(term.tokens and term.text for term in asked.terms)
    assert bool(asked.raw) == bool(query.strip())


def test_a_very_long_query_is_read_in_part() -> None:
    asked = words.question("word " * 200_000 + "資料" * 100_000 + "]" * 100_000)
    assert [term.text for term in asked.terms] == ["word"]
    assert len(asked.needle) == 1_300_000


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("why does login fail after cookie expiry", ["login", "fail", "cookie", "expiry"]),
        ("the", []),
        ("C++", ["c", "c++"]),
        ("src/auth.ts:42", ["src", "auth", "ts", "42", "src/auth.ts:42"]),
        ("std::vector", ["std", "vector", "std::vector"]),
        ("->", ["->"]),
        ("🦊", ["🦊"]),
        ("getUserToken", ["getusertoken", "get", "user", "token"]),
        ("資料庫 登录", ["資料", "料庫", "登录"]),
        ('(what) is "login"? foo(), and (a/b.c).', ["login", "foo", "b", "c", "a/b.c"]),
    ],
)
def test_a_query_is_read_as_words_identifiers_and_pairs(query: str, terms: list[str]) -> None:
    assert [term.text for term in words.question(query).terms] == terms


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("getUserToken", ["get", "user", "token"]),
        ("HTTPServer", ["http", "server"]),
        ("README", []),
        ("Login", []),
        ("utf8", []),
    ],
)
def test_camel_case_is_cut_at_its_humps(name: str, parts: list[str]) -> None:
    assert words.humps(f"see {name} there") == parts


def test_a_long_word_is_cut_and_marked() -> None:
    assert words.tokens("x" * 100) == ["x" * words.WIDEST, words.LONG]


@given(st.one_of(MIXED, st.text(st.characters(max_codepoint=127), max_size=60)))
@example("(a) b_c __d -> e's \x00f\x7fg \x1ch ((i.j..k")
@example(f"{'x' * 65} fooBar {'y' * 64}")
def test_a_text_is_indexed_by_its_pieces_and_its_humps(text: str) -> None:
    body, known = words.indexed(text)
    found = words.pieces(words.fold(text))
    cut = [token[: words.WIDEST] for token in found] + [words.LONG] * any(len(token) > words.WIDEST for token in found)
    more = dict.fromkeys(part[: words.WIDEST] for part in words.humps(text) if part not in cut)
    assert body.split() == [*cut, *more]
    assert known == {*cut, *more}


@pytest.mark.parametrize(
    ("word", "other", "near"),
    [("login", "login", True), ("login", "lgoin", True), ("login", "logn", True), ("login", "loggin", True),
     ("login", "begin", False), ("login", "lo", False), ("aa", "aaa", True)],
)  # fmt: skip
def test_near_is_one_slip_of_the_hand(word: str, other: str, near: bool) -> None:
    assert words.is_near(word, other) is near
    assert words.is_near(other, word) is near


def _scale(**counts: int) -> words.Scale:
    sought = [words.Sought(words.Term(word, words.stem(word), (word,))) for word in counts]
    for one, count in zip(sought, counts.values(), strict=True):
        one.count, one.weight = count, 1.0 / count
    return words.Scale(sought, 60)


def test_a_text_weighs_more_for_a_rarer_word_for_more_words_and_for_fewer_characters() -> None:
    scale = _scale(cookie=2, login=10)

    def weigh(text: str) -> float:
        return scale.weigh(text, words.fold(text))

    cookie, login = weigh("the Cookies of it"), weigh("the logins of it!")
    assert 0 < login < cookie < weigh("login by cookies of it") < 1
    assert weigh("the cookies of it" + " and more" * 20) < cookie
    assert weigh("setCookieAge it is") > 0
    assert weigh("nothing of the sort") == weigh("xcookie") == 0


@given(
    st.lists(
        st.sampled_from(["cookie", "cookies", "xcookie", "cook", "cookiejar", "setCookie", ",", "資"]), max_size=12
    )
)
def test_words_are_counted_by_their_stems(some: list[str]) -> None:
    text = " ".join(some)
    wanted = sum(word in ("cookie", "cookies", "setCookie") for word in some)
    assert _scale(cookie=2).counts(text, words.fold(text)) == [wanted]
