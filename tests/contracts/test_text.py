"""What the text index promises, whether rows wait in it or are indexed: every test runs both ways.

`shelf` is the index beside the texts it does not keep; `admit` and `read` are plain SQL, as the real ones are.
"""

from __future__ import annotations

import itertools
import random
import re
import sqlite3
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.projections import text, words

#: A batch of one row: nothing ever waits. The other way is the index as it comes.
BATCHES = {"indexed": 1, "waiting": text.BATCH}


class Shelf:
    """An index and the texts it is about, in one file."""

    def __init__(self, path: str | Path = ":memory:") -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("CREATE TABLE body (seq INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        text.create(self.connection)
        self.asked = 0

    def put(self, *texts: str, start: int = 0) -> None:
        first = start or self.connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM body").fetchone()[0]
        self.add(enumerate(texts, first))

    def add(self, rows: Iterable[tuple[int, str]]) -> None:
        rows = list(rows)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO body VALUES (?, ?)", rows)
        self.connection.execute("COMMIT")
        waiting = self.waiting()
        if len(waiting) >= text.BATCH or any(len(body) >= text.LONG_TEXT for body in waiting.values()):
            self.index(waiting.items())

    def index(self, rows: Iterable[tuple[int, str]]) -> None:
        rows = list(rows)
        self.connection.execute("BEGIN IMMEDIATE")
        text.add(self.connection, text.prepare(self.connection, iter(rows)), rows[-1][0])
        self.connection.execute("COMMIT")

    def waiting(self) -> dict[int, str]:
        query = "SELECT seq, text FROM body WHERE seq > ? ORDER BY seq"
        return dict(self.connection.execute(query, (text.upto(self.connection),)))

    def read(self, seqs: Sequence[int]) -> Mapping[int, str]:
        rows = [self.connection.execute("SELECT seq, text FROM body WHERE seq = ?", (seq,)).fetchone() for seq in seqs]
        return {row[0]: row[1] for row in rows if row}

    def admit(self, seqs: Sequence[int]) -> set[int]:
        self.asked += len(seqs)
        return set(self.read(seqs))

    def find(self, query: str, limit: int = 10, admit: Callable[[Sequence[int]], set[int]] | None = None) -> list[int]:
        return [hit.seq for hit in self.hits(query, limit, admit)]

    def hits(
        self, query: str, limit: int = 10, admit: Callable[[Sequence[int]], set[int]] | None = None
    ) -> list[text.Hit]:
        let = admit or self.admit
        return text.candidates(self.connection, query, limit=limit, read=self.read, admit=let, waiting=self.waiting())


@pytest.fixture(params=BATCHES, autouse=True)
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size = BATCHES[request.param]
    monkeypatch.setattr(text, "BATCH", size)
    return size


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    shelf = Shelf()
    yield shelf
    shelf.connection.close()


LITERALS = {
    "CI": "The CI machine needs two cores or it times out",
    "DB": "Our DB refuses connections after a restart of the proxy",
    "C++": "Linking the C++ core wants the static runtime library",
    "C#": "The C# client sends its dates without a zone",
    "foo-bar": "Renamed the foo-bar target in the release makefile",
    "user_id": "The column user_id is nullable in the legacy export",
    "src/auth.ts:42": "A race in src/auth.ts:42 when two refreshes overlap",
    "資料": "資料庫連線在重新啟動後會逾時，需要重試三次才行",
    "连": "不要在周末连接生产环境的缓存服务器",
    "登录": "用户登录失败时必须清除旧的会话令牌并且重新请求",
    "로그": "배포 스크립트가 로그 파일을 지우지 않으면 디스크가 가득 찬다",
    "クッキー": "認証クッキーの期限が切れると再読み込みが止まる",
    "สวัสดี": "หน้าแรกแสดงคำว่าสวัสดีสองครั้งเมื่อโหลดช้า",
    "cafe": "The café service answers slowly under the lunch load",
    "RÉSUMÉ": "Uploading a resume larger than one page fails",
    "-O2": "Building with -O2 breaks the checksum of the old codec",
    "std::vector": "Passing std::vector by value doubled the allocations",
    "v2": "The endpoint v2 must keep the trailing slash for gateways",
    "🦊": "Marker 🦊 tags runs that used the experimental scheduler",
    "👩\u200d💻": "The avatar 👩\u200d💻 is cut in half by the thumbnailer",
    "🇩🇪": "Prices for 🇩🇪 are rounded twice on the invoice",
    "->": "The mapping is old->new in the rename table",
    "++": "The loop does i++ twice in one pass",
    "%": "Disk use above 90% stops the nightly copy",
    "~/.ssh": "Keys under ~/.ssh are copied into the image",
    "5dfbd3d1c": "Regression bisected to commit 5dfbd3d1c0ffee42",
    "getUserToken": "Caching inside getUserToken hid the expired session",
}


@pytest.mark.parametrize("query", LITERALS)
def test_a_stored_literal_is_the_first_hit(shelf: Shelf, query: str) -> None:
    shelf.put(*LITERALS.values())
    best = shelf.hits(query)[0]
    assert best.seq == list(LITERALS).index(query) + 1
    assert 1 < best.score <= 2


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
def test_forms_of_unicode_make_no_difference(shelf: Shelf, stored: str, form: str) -> None:
    shelf.put(*(unicodedata.normalize(stored, body) for body in LITERALS.values()))
    for place, query in enumerate(LITERALS, 1):
        assert shelf.find(unicodedata.normalize(form, query).upper())[0] == place


SCRIPTS = st.text(
    st.one_of(
        st.sampled_from("abcde  fgh  AB12_-./:+$%()\n"),
        st.sampled_from("é ß 資料庫登录 クッキーがゝ 로그인 สวัสดี हिन्दी 🦊 ❤\ufe0f → “”。"),
        st.characters(exclude_categories=("Cs",)),
    ),
    min_size=1,
    max_size=80,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SCRIPTS, min_size=1, max_size=8), st.data())
def test_any_part_of_a_stored_text_finds_it(batch: int, texts: list[str], data: st.DataObject) -> None:
    shelf = Shelf()
    shelf.put(*texts)
    place = data.draw(st.integers(0, len(texts) - 1))
    start = data.draw(st.integers(0, len(texts[place]) - 1))
    query = texts[place][start : data.draw(st.integers(start + 1, len(texts[place])))]
    found = shelf.hits(query)
    if query.strip():
        needle = words.fold(query).strip()
        holders = [
            seq for seq, body in enumerate(texts, 1) if needle in words.fold(body) and (needle or query.strip() in body)
        ]
        assert found
        assert found[0].seq in holders
        assert found[0].score >= 1
    else:
        assert not found


def test_a_part_of_a_word_and_a_part_across_words_are_found(shelf: Shelf) -> None:
    shelf.put(*LITERALS.values())
    for query, place in (
        ("nnectio", 2),
        ("untime libr", 3),
        ("s after a rest", 2),
        ("edules", None),
        ("e old cod", 16),
        ("h.ts:4", 7),
    ):
        expected = [seq for seq, body in enumerate(LITERALS.values(), 1) if query in body]
        assert shelf.find(query)[: len(expected)] == expected, query
        assert place is None or place in expected


def test_a_part_of_a_very_long_word_is_found(shelf: Shelf) -> None:
    blob = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=500))
    shelf.put("first one", f"the key {blob} was rotated", "last one")
    for query in (blob, blob[:70], blob[200:230], blob[-20:], f"{blob[-9:]} was rot"):
        assert shelf.find(query) == [2]


def test_a_question_finds_the_answer_and_stop_words_do_not_count(shelf: Shelf) -> None:
    shelf.put(
        "Login fails because the cookie expires before the refresh runs",
        "Why does it do so after all?",
        *LITERALS.values(),
    )
    assert shelf.find("why does login fail after cookie expiry")[0] == 1
    assert 2 not in shelf.find("why does login fail after cookie expiry")


def test_nothing_relevant_is_an_answer(shelf: Shelf) -> None:
    shelf.put(*LITERALS.values())
    for query in ("zebra", "what is the zebra", "zebra giraffe", "zz", "∰", "", "   ", "\n", "\ud800"):
        assert shelf.find(query) == []


def test_a_query_of_stop_words_alone_is_a_literal(shelf: Shelf) -> None:
    shelf.put("The end", "to be or not to be", "be that as it may", "nothing")
    assert shelf.find("the") == [1]
    assert shelf.find("or not to") == [2]
    assert shelf.find("not be") == []


def test_the_whole_query_ranks_above_its_words_and_more_words_above_fewer(shelf: Shelf) -> None:
    shelf.put(
        "expiry of a cookie and cookie expiry policies: cookie, cookie; expiry, expiry" * 3,
        "the long story of a session that went wrong in the end, for cookie  expiry was wrong; cookie expiry",
        "a cookie",
        "cookies and their expiry",
        "login",
        *LITERALS.values(),
    )
    found = shelf.hits("cookie expiry")
    assert {hit.seq for hit in found if hit.score >= 1} == {1, 2}
    assert [hit.seq for hit in found if hit.score < 1] == [4, 3]


def test_a_word_is_found_by_its_other_forms_its_beginning_and_one_slip(shelf: Shelf) -> None:
    shelf.put("authentication was retried", "the proxies refused", "getUserToken is cached", "unrelated")
    for query, place in (
        ("retries", 1),
        ("retrying", 1),
        ("proxy", 2),
        ("refuse", 2),
        ("user token", 3),
        ("authenticat", 1),
        ("authetication", 1),
        ("why refuesd", 2),
    ):
        assert shelf.find(query) == [place], query


def test_of_two_equals_the_newer_comes_first(shelf: Shelf) -> None:
    shelf.put(*["the same words"] * 5)
    assert shelf.find("same words", limit=3) == [5, 4, 3]


def test_scores_fall_and_limits_hold(shelf: Shelf) -> None:
    shelf.put(*(f"word{n % 7} item{n % 5} unit{n % 3}" for n in range(100)))
    hits = shelf.hits("word1 item2 unit2 missing", limit=40)
    assert len(hits) == 40 == len({hit.seq for hit in hits})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 2 for hit in hits)
    assert shelf.find("word1", limit=0) == []


SYNTAX = [
    '"', "'", '""', '"a', "*", "a*", "^a", "NEAR(a b)", "a AND", "OR", "NOT a", "body:a", "{body}:a", "-a", "a+b",
    "(", ")", "a)(", "\\", "\x00", "a\x00b", "\ud800", "a\udfffb", "%", "_", ";--", "\u202e", "\ufeff", "\u0301", "{}",
    "NULL", "1e9", "👩\u200d", "\U000e0067",
]  # fmt: skip


@pytest.mark.parametrize("query", SYNTAX)
def test_a_query_is_never_syntax(shelf: Shelf, query: str) -> None:
    shelf.put("a b c body NEAR", "AND OR NOT", "plain")
    for shape in (query, query * 50, f"a {query} b", f'"{query}"'):
        assert all(hit.seq in (1, 2, 3) for hit in shelf.hits(shape))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(),
        st.text(st.sampled_from("\"'*^()+-{}: ANDORTNEaé資\x00\ud800\u0301")),
        st.lists(st.sampled_from(SYNTAX)).map(" ".join),
    )
)
def test_no_query_fails(batch: int, library: Shelf, query: str) -> None:
    hits = library.hits(query)
    assert all(0 < hit.score <= 2 for hit in hits)


@pytest.fixture(scope="module")
def library() -> Shelf:
    shelf = Shelf()
    shelf.put(*LITERALS.values(), *LITERALS.values(), *LITERALS.values())
    return shelf


def test_a_query_of_a_megabyte_is_answered(shelf: Shelf) -> None:
    huge = "lorem ipsum dolor " * 60_000
    shelf.put("lorem sit", huge, "nothing")
    assert shelf.find(huge)[0] == 2
    assert shelf.find("x" * 1_000_000) == []
    assert shelf.find(huge[5:-7])[0] == 2
    assert shelf.find('"( ' * 300_000) == []


def test_a_filter_that_admits_one_row_still_finds_it() -> None:
    shelf = Shelf()
    shelf.put(*(f"the build of part {n} failed again" for n in range(3000)))
    for only in (7, 1500, 2993):
        for query in ("build", "build failed", "the build of", f"part {only - 1}", "again", "uild"):
            assert shelf.find(query, admit=lambda seqs, only=only: {only} & set(seqs)) == [only], (query, only)
    assert shelf.find("build", admit=lambda seqs: set()) == []


def test_rows_that_cannot_be_read_any_more_are_left_out(shelf: Shelf) -> None:
    shelf.put("one cookie", "two cookies")
    shelf.connection.execute("DELETE FROM body WHERE seq = 1")
    assert shelf.find("cookie", admit=set) == [2]


def _corpus(rows: int, seed: int = 3) -> list[str]:
    """Text of a skewed vocabulary, as English is: a few words everywhere, most words nearly nowhere."""
    chance = random.Random(seed)
    stems = [
        "".join(chance.choices("bcdfglmnprst", k=1) + chance.choices(["an", "el", "ist", "or", "um"], k=n % 3 + 1))
        for n in range(2000)
    ]
    weights = list(itertools.accumulate(1 / (n + 2) for n in range(len(stems))))
    endings = ["", "", "s", "ing", "ed"]
    return [
        " ".join(
            word + chance.choice(endings)
            for word in chance.choices(stems, cum_weights=weights, k=chance.randint(5, 60))
        )
        for _ in range(rows)
    ]


def test_what_bm25_with_stems_ranks_best_is_found() -> None:
    shelf, corpus = Shelf(), _corpus(3000)
    shelf.put(*corpus)
    plain = sqlite3.connect(":memory:")
    plain.execute("CREATE VIRTUAL TABLE plain USING fts5(text, tokenize='porter unicode61')")
    plain.executemany("INSERT INTO plain (rowid, text) VALUES (?, ?)", enumerate(corpus, 1))
    chance = random.Random(5)
    for _ in range(60):
        distinct = {words.stem(word): word for word in chance.choice(corpus).split() if word not in words.STOP}
        some = chance.sample(sorted(distinct.values()), 3)
        best = plain.execute(
            "SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 5",
            (" OR ".join(f'"{word}"' for word in some),),
        )
        assert {seq for (seq,) in best} <= set(shelf.find(" ".join(some), limit=20)), some


def test_parts_of_words_are_found_among_many_rows() -> None:
    shelf, corpus = Shelf(), _corpus(3000)
    shelf.put(*corpus)
    chance = random.Random(9)
    for _ in range(150):
        body = chance.choice(corpus)
        start = chance.randrange(len(body))
        query = body[start : start + chance.randint(3, 30)].strip() or body[:9]
        best = shelf.hits(query)[0]
        assert best.score >= 1, query
        assert query in corpus[best.seq - 1]


def test_words_in_most_rows_rank_nothing() -> None:
    shelf = Shelf()
    shelf.put(*(f"project report number{n}" for n in range(200)), "the project has a zebra")
    assert shelf.find("zebra project") == [201]
    assert shelf.find("giraffe project") == []
    assert len(shelf.find("project")) == 10
    assert len(shelf.find("report project")) == 10


def test_rows_one_by_one_and_all_at_once_make_the_same_index(batch: int) -> None:
    corpus = _corpus(200)
    one_by_one, at_once = Shelf(), Shelf()
    for body in corpus:
        one_by_one.put(body)
    at_once.put(*corpus)
    for query in (*corpus[:40], *(" ".join(body.split()[1:4]) for body in corpus[:40])):
        assert one_by_one.hits(query) == at_once.hits(query)


def test_what_was_rolled_back_is_not_found(shelf: Shelf) -> None:
    shelf.put("the first cookie")
    shelf.connection.execute("BEGIN")
    text.add(shelf.connection, text.prepare(shelf.connection, [(2, "the second cookie")]))
    assert set(shelf.find("cookie", admit=set)) == {1}
    shelf.connection.execute("ROLLBACK")
    assert shelf.find("second", admit=set) == []


def test_removing_is_the_inverse_of_adding(shelf: Shelf) -> None:
    secret = "sk-Zq7hunterXy2 lies in ConfigLoader, 機密資料 und Größe"
    kept, other = [*LITERALS.values()], Shelf()
    shelf.put(*kept[:10], secret, *kept[10:])
    shelf.connection.execute("DELETE FROM body WHERE seq = 11")
    other.add((seq + (seq > 10), body) for seq, body in enumerate(kept, 1))
    text.remove(shelf.connection, [(11, secret), (999, "never added")])
    for query in ("zq7hunterxy2", "7hunt", "ConfigLoader", "loader", "機密", "密資", "größe", *LITERALS):
        assert shelf.hits(query, admit=set) == other.hits(query, admit=set), query
    assert not _traces(shelf.connection, "zq7hunterxy2", "hun", "configload", "grosse", "機", "密")


def _traces(connection: sqlite3.Connection, *secrets: str) -> list[str]:
    """Return which of these stand anywhere in the tables of the index."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    cells: list[bytes] = []
    for table in (name for name in tables if re.fullmatch(r"text_words_(data|idx)|text_term", name)):
        for row in connection.execute(f"SELECT * FROM {table}"):
            cells += [cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
    assert cells
    return [secret for secret in secrets if any(secret.encode() in cell for cell in cells)]


def test_words_of_one_stem_leave_the_vocabulary_with_the_last_row_of_it(shelf: Shelf) -> None:
    shelf.put("one is hunting", "another hunts", "plain")
    shelf.connection.execute("DELETE FROM body WHERE seq < 3")
    text.remove(shelf.connection, [(1, "one is hunting")])
    text.remove(shelf.connection, [(2, "another hunts")])
    assert not _traces(shelf.connection, "hunt")
    assert shelf.find("plain") == [3]


def test_removing_and_adding_again_works(shelf: Shelf) -> None:
    shelf.put("one cookie", "two cookies")
    shelf.connection.execute("DELETE FROM body WHERE seq = 1")
    text.remove(shelf.connection, [(1, "one cookie")])
    assert shelf.find("cookie") == [2]
    shelf.index([(3, "three cookies")])
    shelf.index([(4, "x" * 5000)])
    assert set(shelf.find("cookie", admit=set)) <= {2, 3}


def test_dropping_leaves_nothing_and_creating_starts_anew(shelf: Shelf) -> None:
    shelf.put(*LITERALS.values())
    text.drop(shelf.connection)
    left = [name for (name,) in shelf.connection.execute("SELECT name FROM sqlite_master")]
    assert left == ["body"]
    text.create(shelf.connection)
    assert shelf.find("cookie") == []
    shelf.index(enumerate(LITERALS.values(), 1))
    assert shelf.find("user_id")[0] == 6


def test_searching_writes_nothing_and_works_on_a_file_that_is_only_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "some.db")
    shelf.put(*LITERALS.values())
    reader = sqlite3.connect(f"{(tmp_path / 'some.db').as_uri()}?mode=ro", uri=True)
    reader.execute("PRAGMA query_only = ON")
    before = reader.total_changes
    found = text.candidates(
        reader, "cookie expiry", limit=5, read=shelf.read, admit=shelf.admit, waiting=shelf.waiting()
    )
    again = text.candidates(
        reader, "zzz 7 nothing", limit=5, read=shelf.read, admit=shelf.admit, waiting=shelf.waiting()
    )
    assert [hit.seq for hit in found] == []
    assert again == []
    users = text.candidates(reader, "user", limit=5, read=shelf.read, admit=shelf.admit, waiting=shelf.waiting())
    assert {hit.seq for hit in users} == {6, 27}
    assert reader.total_changes == before


def test_text_that_cannot_be_stored_as_it_is_is_still_found(shelf: Shelf) -> None:
    shelf.index([(1, "broken \ud83d pair"), (2, "nul \x00 byte"), (3, "")])
    shelf.connection.execute("INSERT INTO body VALUES (1, 'broken ? pair'), (2, 'nul ' || char(0) || ' byte'), (3, '')")
    assert shelf.find("broken pair") == [1]
    assert shelf.find("nul \x00 byte") == [2]
    assert shelf.find("pair \ud83d") == [1]


def test_nothing_of_a_text_is_kept_once_it_is_indexed() -> None:
    shelf = Shelf()
    shelf.put(*(f"row {n} of sentence number {n}" for n in range(text.BATCH + 3)))
    shelf.put("x" * (text.LONG_TEXT + 1))
    assert shelf.waiting() == {}
    assert not _traces(shelf.connection, "of sentence", "sentence number")
    assert shelf.find("sentence number 2")[0] == 3


def test_a_batch_of_many_words_is_made_ready_in_a_few_times_its_size(shelf, monkeypatch):
    monkeypatch.setattr(text, "WORDS", 2000)
    rows = [(seq, " ".join(f"w{number}" for number in range(seq * 100, seq * 100 + 110))) for seq in range(1, 1500)]
    tracemalloc.start()
    batch = text.prepare(shelf.connection, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * batch.chars
    text.add(shelf.connection, batch)
    known = {term for (term,) in shelf.connection.execute("SELECT term FROM text_term")}
    assert known == {word for _, said in rows for word in said.split()}
