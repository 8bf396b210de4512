"""Token counts are tiktoken's own, the bound is never below them, and no text of any kind upsets either."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import random
import subprocess
import sys
import threading
import unicodedata
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bede.engines import tokens
from bede.errors import Corrupt, Unavailable

ORIGINAL_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
#: How tiktoken names the file in its cache: the SHA-1 of the address it would fetch it from.
CACHE_NAME = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
SIZE = 100_256

PIECES = [
    *("a", "B", "s", "S", "t", "ll", "re", "ſ", "K", "'", "'s", "the", " function", "Straße", "né", "中", "文", "я"),
    *(
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        "\v",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
        "\u180e",
        "\x1c",
        "\u200b",
    ),
    *("1", "23", "٣", "½", "²", "一", "Ⅷ", "!", "--", "_", "—", "…", "→", "゛", "\u0301", "\x00", "\x80", "\ufffd"),
    *("✅", "🚀", "👩‍💻", "\U0001f1e6", "\U0001fbf3", "\ue000", "\U000e0001", "\U0001e900", "\U0003134a"),
    *("\ud800", "\udc00", "<|endoftext|>", "<|fim_prefix|>", "é", "한국", "ภาษา", "العربية", "हिन्दी"),
]
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.text("abcdeinorstu \n", max_size=300),
    st.binary(max_size=150).map(bytes.hex),
    st.binary(max_size=150).map(lambda data: base64.b64encode(data).decode()),
)
#: Where a cut is easily put a character too early or too late.
EDGES = [
    *("'ſthe", "'ſ", "it'Sthe", "'llama", "'LLama", "'relation", "'x", "''s", "1'd2"),
    *("a\u3000the", "a\u3000—b", "a\xa0!", "a \xa0!", "a \u3000the", "\t!", " \t!", "\x85\x85x", "a\u2028\u2029b"),
    *("x\n   ", "x\n   y", "x  \n\n  ", "!\n\n x", "!\n \n x", "!\r\n\r\n", "x \x1c y", "\x1c\n\x1f", "  x", "   !"),
    *("12345", "1٣½²3", "一二", "a1b", "_a", "__a", " _a", "\n_a", "\na", "…\n\nthe", "\u0378\n\n  the", "\u0378\n   "),
    *("é", "e\u0301", "\u0301the", "\u180ethe", "\u200bthe", "ªº", "ǅa", "ʰa", "𝒜b", "\U0001f1e6the", "🏽the"),
]
SAMPLES = {
    "English": "The chronicler writes down what happened, in the order in which it happened, and nothing else.\n" * 5,
    "code": "def tip(self, ref: str) -> Place:\n    return log.place(self.connection, refs.tip(ref)) or {}\n" * 5,
    "log": "2026-11-30T12:04:11.482Z ERROR [worker-7] retry 3/5 of job 0x7f3a9c: exit status 137\n" * 5,
    "JSON": '{"schema": "search/1", "hits": [{"id": "9b424153a6f7", "score": 0.8731, "labels": ["dep:sqlite"]}]}\n',
    "Chinese": "记忆是一个只能追加的日志，每个代理都可以读取。\n" * 5,
    "Japanese": "このリポジトリには、すべての出来事が順番に記録されています。\n" * 5,
    "Russian": "Память хранит всё, что произошло, и ничего не забывает.\n" * 5,
    "emoji": "✅ done 🚀 shipped ❌ failed 👩‍💻 ⚠️\n" * 5,
}


def unpack() -> list[bytes]:
    """Read the packaged file without the code under test."""
    data = gzip.decompress(Path(tokens.__file__).with_name("cl100k_base.ranks.gz").read_bytes())
    found, at = [], SIZE
    for length in data[:SIZE]:
        found.append(data[at : at + length])
        at += length
    assert at == len(data)
    return found


@pytest.fixture(scope="module")
def original() -> bytes:
    """The ranks as OpenAI publishes them."""
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(unpack()))


@pytest.fixture(scope="module")
def theirs(original, tmp_path_factory):
    """The encoding as tiktoken itself makes it from the original file, whose hash it checks."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / CACHE_NAME).write_bytes(original)
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        import tiktoken

        return tiktoken.get_encoding("cl100k_base")
    finally:
        del os.environ["TIKTOKEN_CACHE_DIR"]
        if before is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


@pytest.fixture(scope="module")
def every_merge():
    """What `bound` would know if it read all ranks."""
    return tokens._Prices(tokens._ranks(SIZE))


def bound_with(prices, text: str) -> int:
    some, tokens._prices = tokens._prices, lambda: prices
    try:
        return tokens.bound(text)
    finally:
        tokens._prices = some


def run(code: str) -> str:
    """Run Python in a fresh process, where nothing is loaded yet."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_environment())
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(tokens.__file__).parents[2])}


# The packaged file


def test_the_packaged_ranks_are_the_published_ones(original):
    assert hashlib.sha256(original).hexdigest() == ORIGINAL_SHA256


def test_no_token_is_wider_than_the_limits_assume():
    assert max(map(len, unpack())) == 128


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:999] + b"\0" + data[1000:], lambda _: b""]
)
def test_damaged_ranks_are_refused_before_use(tmp_path, monkeypatch, damage):
    copy = tmp_path / "ranks.gz"
    copy.write_bytes(damage(Path(tokens.__file__).with_name("cl100k_base.ranks.gz").read_bytes()))
    monkeypatch.setattr(tokens, "_RANKS", copy)
    with Forgotten(), pytest.raises(Corrupt, match="damaged"):
        tokens.count("x")
    with Forgotten(), pytest.raises(Corrupt, match="damaged"):
        tokens.bound("x")


def test_missing_ranks_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "_RANKS", tmp_path / "none.gz")
    with Forgotten(), pytest.raises(Unavailable, match=r"none\.gz") as caught:
        tokens.count("x")
    assert caught.value.hint


class Forgotten:
    """Nothing is loaded inside, and nothing loaded inside stays."""

    def __enter__(self):
        tokens._encoding.cache_clear()
        tokens._prices.cache_clear()

    def __exit__(self, *_):
        self.__enter__()


# Loading


def test_importing_loads_nothing():
    loaded = run("import sys, bede.engines.tokens; print(*sys.modules)").split()
    assert not {"tiktoken", "tiktoken.core", "zlib", "unicodedata", "requests"} & set(loaded)


@pytest.mark.parametrize(
    "call", ["bound('né ' * 999)", "fits('word ' * 999, 1500)", "fits('x' * 9**7, 9)", "fits('', 0)"]
)
def test_what_is_plain_does_not_load_tiktoken(call):
    assert run(f"import sys; from bede.engines.tokens import *; {call}; print('tiktoken' in sys.modules)") == "False"


def test_counting_needs_no_network_and_no_cache(tmp_path):
    code = """
import socket, sys
def refuse(*_, **__): raise AssertionError("the network was touched")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from bede.engines import tokens
print(tokens.count("hello world"), "requests" in sys.modules)
"""
    folder = tmp_path / "cache"
    environment = {**_environment(), "TIKTOKEN_CACHE_DIR": str(folder), "DATA_GYM_CACHE_DIR": str(folder)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.stdout.split() == ["2", "False"], ran.stderr
    assert not folder.exists()


def test_threads_may_be_first_together():
    with Forgotten():
        counts, gate = [], threading.Barrier(8)

        def work() -> None:
            gate.wait()
            counts.append((tokens.bound(SAMPLES["Russian"]), tokens.count(SAMPLES["Russian"])))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(counts) == 8
    assert len(set(counts)) == 1


# Exact counts


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_tokens_are_those_of_tiktoken(theirs, text):
    found = tokens.encode(text)
    assert found == theirs.encode(text, disallowed_special=())
    assert tokens.count(text) == len(found)


@pytest.mark.parametrize("text", EDGES)
def test_edges_are_cut_as_tiktoken_cuts_them(theirs, every_merge, text):
    assert tokens.encode(text) == theirs.encode_ordinary(text)
    exact, total = tokens.count(text), bound_with(every_merge, text)
    assert total == exact if tokens._ODD not in text.translate(tokens._SHAPES) else total >= exact


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_are_counted_as_tiktoken_does(theirs, kind):
    assert tokens.encode(SAMPLES[kind]) == theirs.encode_ordinary(SAMPLES[kind])


def test_special_tokens_are_ordinary_text():
    assert tokens.count("<|endoftext|>") > 1
    assert tokens.decode(tokens.encode("a<|endoftext|>b")) == "a<|endoftext|>b"


def test_lone_surrogates_count_as_replacement_characters():
    assert tokens.encode("a\ud800b") == tokens.encode("a\ufffdb")
    assert tokens.encode("\ud83d\ude80") == tokens.encode("🚀")


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_decoding_gives_the_text_back(text):
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert tokens.decode(tokens.encode(text)) == clean


def test_half_a_character_decodes_to_a_replacement():
    assert "\ufffd" in tokens.decode(tokens.encode("鿿")[:1])


@pytest.mark.parametrize("token", [100_256, 100_257, 10**9])
def test_an_unknown_token_is_a_key_error(token):
    with pytest.raises(KeyError):
        tokens.decode([token])


# Long and monotonous text

GAPS = [" ", "\n", "\t ", " \n", "\r\n", "\u3000", "\xa0", "\n    "]
AFTER = ["x", "!", "1", "é", "", "\n", "\x1c", "'s"]
BEFORE = ["", "x", "!", "1", "end.\n", "\u2014"]


@given(
    st.sampled_from(BEFORE),
    st.sampled_from(GAPS),
    st.integers(1, 60),
    st.text(" \n\t\r", max_size=3),
    st.sampled_from(AFTER),
    st.sampled_from(GAPS),
    st.integers(0, 60),
)
@settings(max_examples=200, deadline=None)
def test_whitespace_is_cut_where_tiktoken_cuts_it(before, gap, times, seam, after, gap2, times2):
    text = before + gap * times + seam + after + gap2 * times2 + "y" * (times2 % 2)
    stride, tokens._STRIDE = tokens._STRIDE, 16
    try:
        assert "".join(tokens._parts(text)) == text
        cut = tokens.encode(text)
    finally:
        tokens._STRIDE = stride
    assert cut == tokens.encode(text)


@pytest.mark.parametrize(("gap", "end"), [(" ", "x"), (" ", ""), ("\n", "x"), ("\u3000", "\n  x"), (" \n", "  x")])
def test_a_million_blanks_do_not_overflow_the_matcher(gap, end):
    text = "a" + gap * (1_200_000 // len(gap)) + end
    assert tokens.decode(tokens.encode(text)) == text


RUNS = [
    *("x", "ab", "aA", "0123456789", "!", "!?-=", "a1", "a!", "éa", "字", "字。かな、", "가", "😀", "\u0661", "１２３"),
    *("a\n", "a\n b", "' s", "'st", " ", "\n", " \n", "\t ", "ABC'll", "\u0301a", "─", "\x85", "\u3000字", "ǅa"),
]


@given(st.lists(st.tuples(st.sampled_from(RUNS), st.sampled_from([1, 5, 60, 700])), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_long_text_is_encoded_in_steps_as_if_it_were_one(runs):
    text = "".join(unit * times for unit, times in runs)
    whole = tokens.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_STRIDE", 64)
        patch.setattr(tokens, "_STRETCH", 300)
        patch.setattr(tokens, "_TRIES", 8)
        assert "".join(tokens._stretches(text)) == text
        assert tokens.encode(text) == whole
        assert tokens.widths(text) == bytes(map(tokens._widths().__getitem__, whole))


@pytest.mark.parametrize("unit", ["x", "=", "7", " ", "的"])
def test_a_long_text_of_one_piece_is_encoded_in_parts(unit):
    """What merges a piece takes fifty times its size."""
    text = unit * 2_000_000
    parts = [len(part) for part in tokens._encoded(text)]
    assert len(parts) > 3
    assert sum(parts) == len(tokens.widths(text))


@pytest.mark.parametrize("unit", ["a", "-", "1", "的", "\ud800", "\u0378\n", "ab "])
def test_a_long_text_of_one_thing_is_counted_and_bounded(unit):
    text = unit * (300_000 // len(unit))
    exact = tokens.count(text)
    assert exact <= tokens.bound(text)
    assert not tokens.fits(text, exact - 1)
    assert tokens.fits(text, exact)


# The bound


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_the_bound_is_never_below_the_count(text):
    assert tokens.bound(text) >= tokens.count(text)


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_with_every_merge_the_bound_is_the_count_unless_a_character_is_odd(every_merge, text):
    total = bound_with(every_merge, text)
    if tokens._ODD in text.translate(tokens._SHAPES):
        assert total >= tokens.count(text)
    else:
        assert total == tokens.count(text)


#: Where the kinds of characters lie close together; in the rest of Unicode one in 97 will do.
DENSE = [range(0x3400), range(0xA000, 0xAC00), range(0xD7A0, 0xE010), range(0xF900, 0x10800), range(0x1D100, 0x1FC00)]


def test_no_shape_contradicts_unicode():
    kinds = {"a": "L", "0": "N"}
    for code in chain(*DENSE, range(0x3400, 0x110000, 97)):
        shape = tokens._SHAPES[code]
        if shape == chr(code) or shape == tokens._ODD:
            continue
        category = unicodedata.category(chr(code))
        if shape == "\t":
            assert category[0] == "Z" or chr(code) == "\x85"
        elif shape == "!":
            assert category[0] not in "LNZ"
        else:
            assert category[0] == kinds.get(shape, "L")


@pytest.mark.parametrize("letters", ["abcdefghij", "aA", "的一是在不了有和人这中大为上个国", "-=", "éà", "ж", "\n"])
def test_long_pieces_are_merged_as_tiktoken_merges_them(every_merge, letters):
    choose = random.Random(letters).choice
    for size in range(1, 257 // len(letters[0].encode()), 3):
        text = "".join(choose(letters) for _ in range(size))
        assert bound_with(every_merge, text) == tokens.count(text)


def test_a_character_of_unknown_class_counts_in_bytes():
    assert tokens.bound("\U000100ac" * 2) == 8 > tokens.count("\U000100ac" * 2)


def test_the_bound_holds_for_every_character_beside_every_kind_of_neighbour():
    low, codes = [], [*chain(*DENSE), *range(0x3400, 0x110000, 97)]
    for at in range(0, len(codes), 64):
        block = map(chr, codes[at : at + 64])
        text = "".join(f"ab{char}c 1{char}2'{char}l {char}{char}\n{char}\n  {char}. \t{char}" for char in block)
        if tokens.bound(text) < tokens.count(text):
            low.append(hex(codes[at]))
    assert not low


#: How far above the count the bound may lie, as a part of it; what holds for these samples, with a little room.
@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("English", 1.15),
        ("code", 1.2),
        ("log", 1.2),
        ("JSON", 1.3),
        ("Chinese", 1.8),
        ("Japanese", 1.8),
        ("Russian", 1.8),
        ("emoji", 2.0),
    ],
)
def test_the_bound_is_tight(kind, most):
    exact = tokens.count(SAMPLES[kind])
    assert exact <= tokens.bound(SAMPLES[kind]) <= most * exact


# Budgets


@given(TEXTS, st.integers(-2, 250))
@settings(max_examples=150, deadline=None)
def test_fitting_is_exact(text, budget):
    assert tokens.fits(text, budget) is (tokens.count(text) <= budget)


@pytest.mark.parametrize("kind", ["English", "log", "Chinese", "emoji"])
def test_fitting_is_as_exact_before_tiktoken_is_loaded(kind):
    text = SAMPLES[kind]
    exact, most = tokens.count(text), tokens.bound(text)
    for budget in {exact - 1, exact, most - 1, most, most + 1}:
        with Forgotten():
            assert tokens.fits(text, budget) is (exact <= budget)


@given(TEXTS, st.integers(-2, 120))
@settings(max_examples=200, deadline=None)
def test_trimming_keeps_a_prefix_within_the_budget(text, budget):
    trimmed = tokens.trim(text, budget)
    if tokens.fits(text, budget):
        assert trimmed == text
        return
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert clean.startswith(trimmed)
    assert tokens.count(trimmed) <= max(budget, 0)


@given(st.lists(st.text("ab \t!é中", max_size=12), min_size=1, max_size=12), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_trimming_keeps_as_many_lines_as_fit(rows, budget):
    text = "\n".join(rows)
    trimmed = tokens.trim(text, budget)
    ends = [at for at in range(1, len(text)) if text[at - 1] == "\n" and _starts_a_line(text[at:])]
    fitting = [end for end in ends if tokens.count(text[:end]) <= budget and text[:end].strip()]
    if not tokens.fits(text, budget) and fitting:
        assert trimmed == text[: max(fitting)]


def _starts_a_line(rest: str) -> bool:
    first = rest.split("\n", 1)[0]
    return bool(first.strip(" \t")) or "\n" not in rest


def test_trimming_keeps_blank_lines_with_the_line_before():
    text = "one\n  \n\t\ntwo\nthree"
    kept = "one\n  \n\t\n"
    assert tokens.trim(text, tokens.count(kept)) == kept
    assert tokens.trim(text, tokens.count(kept) - 1).rstrip() == "one"
    assert tokens.trim(text, tokens.count(text) - 1) == kept + "two\n"


def test_trimming_cuts_a_long_line_at_a_token():
    text = "word " * 1000 + "\nsecond line\n"
    trimmed = tokens.trim(text, 100)
    assert tokens.count(trimmed) == 100
    assert text.startswith(trimmed)


def test_trimming_counts_again_what_it_has_cut():
    word = "преобразователь"
    whole = tokens.decode(tokens.encode(word)[:4]).rstrip("\ufffd")
    assert (whole, tokens.count(whole)) == ("преобра", 5)
    assert tokens.trim(word, 4) == "пре"


def test_trimming_ends_at_a_line():
    text = "one line\n\n\nanother line\n    indented\nlast"
    assert tokens.trim(text, 4) == "one line\n\n\n"
    assert tokens.trim(text, tokens.count(text) - 1) == "one line\n\n\nanother line\n    indented\n"


def test_trimming_never_splits_a_character():
    for budget in range(12):
        assert set(tokens.trim("鿿" * 50, budget)) <= {"鿿"}


def test_trimming_a_huge_line_reads_little_of_it():
    text = '{"key": "value", "n": 12345}, ' * 100_000
    trimmed = tokens.trim(text, 500)
    assert tokens.count(trimmed) == 500
    assert text.startswith(trimmed)
