"""Guests do what their makers' own libraries do, take any text, and say what is missing without being loaded.

What needs a guest's library skips where that is not installed: the wheel needs none of them.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest
from contracts.tabled import installed, table
from hypothesis import given
from hypothesis import strategies as st

from bede.engines import embedding, hub, qwen, static
from bede.errors import Corrupt, Unavailable, UsageError

# The door

SPECS = ["static", "mlx:4b", "mlx:0.6b", "mlx:/nowhere/a", "st:some/model", "st:/nowhere/b", "onnx:/nowhere/c"]


@pytest.mark.parametrize("spec", ["", "static:", "mlx", "mlx:", "onnx", "gpt:4", "qwen", ":4b", "\0"])
def test_what_is_no_embedder_is_a_usage_error(spec, tmp_path):
    with pytest.raises(UsageError) as caught:
        embedding.embedder(spec, tmp_path)
    assert "mlx:4b" in caught.value.hint


@pytest.mark.parametrize("spec", ["static", "mlx:", "", "st"])
def test_what_is_no_reranker_is_a_usage_error(spec, tmp_path):
    with pytest.raises(UsageError):
        embedding.reranker(spec, tmp_path)


def test_no_size_has_another_name(tmp_path):
    with pytest.raises(UsageError):
        embedding.embedder("mlx:70b", tmp_path)


ASK = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bede.engines import embedding
from bede.errors import Unavailable
before = set(sys.modules)
said = []
for spec in json.loads(sys.argv[2]):
    for door in (embedding.embedder, embedding.reranker):
        if spec != "static" or door is embedding.embedder:
            try:
                door(spec, Path("cache"), {"HF_HOME": "hub"})
            except Unavailable as error:
                said.append([spec, error.message, error.hint, error.reason])
heavy = {"numpy", "mlx", "tokenizers", "torch", "transformers", "onnxruntime", "sentence_transformers"}
print(json.dumps([said, sorted(heavy & {name.split(".")[0] for name in sys.modules})]))
"""


def ask(root, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", ASK, str(root / "core"), json.dumps(SPECS)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_nothing_installed_is_unavailable_and_says_what_to_install(root):
    said, loaded = ask(root, "-S")
    assert loaded == []
    assert len(said) == 2 * len(SPECS) - 1
    extras = {"static": "vectors", "mlx": "mlx", "st": "sentence-transformers", "onnx": "onnx"}
    for spec, message, hint, reason in said:
        assert (message.startswith("not installed: "), reason) == (True, "package")
        assert f"bede[{extras[spec.partition(':')[0]]}]" in hint


def test_what_is_missing_is_found_without_loading_a_guest(root):
    said, loaded = ask(root)
    assert loaded == []
    assert len(said) == 2 * len(SPECS) - 1
    assert all(hint for _spec, _message, hint, _reason in said)


# Where models lie


def snapshot(home, repository, revision, main=True):
    folder = home / f"models--{repository.replace('/', '--')}"
    (folder / "snapshots" / revision).mkdir(parents=True)
    if main:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs/main").write_text(revision)
    return folder / "snapshots" / revision


@pytest.mark.parametrize(
    ("variable", "below"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub"),
                            ("HOME", ".cache/huggingface/hub")],
)  # fmt: skip
def test_the_hubs_cache_is_where_its_client_has_it(tmp_path, variable, below):
    place = snapshot(tmp_path / below, "Qwen/Qwen3-Embedding-4B", "5cf2132abc99cad0")
    found = hub.cached("Qwen/Qwen3-Embedding-4B", {variable: str(tmp_path)})
    assert found == hub.Model(place, "Qwen/Qwen3-Embedding-4B@5cf2132abc99cad0")
    assert hub.cached("Qwen/Qwen3-Embedding-8B", {variable: str(tmp_path)}) is None


def test_the_main_revision_comes_first(tmp_path):
    snapshot(tmp_path, "a/b", "ffff", main=False)
    old = snapshot(tmp_path, "a/b", "1111")
    assert hub.cached("a/b", {"HF_HUB_CACHE": str(tmp_path)}).folder == old
    (tmp_path / "models--a--b/refs/main").write_text("gone")
    assert hub.cached("a/b", {"HF_HUB_CACHE": str(tmp_path)}).name == "a/b@ffff"
    (tmp_path / "models--a--b/refs/main").write_bytes(b"\xff../../..")
    assert hub.cached("a/b", {"HF_HUB_CACHE": str(tmp_path)}) is None


@pytest.mark.parametrize("name", ["../../etc", "a/b/c", "a/..", "/a", "a b", "", "a\n", "~/x"])
def test_no_name_leads_out_of_the_cache(tmp_path, name):
    with pytest.raises(UsageError):
        hub.cached(name, {"HF_HUB_CACHE": str(tmp_path)})


def test_a_folder_is_named_after_what_is_in_it(tmp_path):
    model, cache = tmp_path / "model", tmp_path / "cache"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "a.bin").write_bytes(b"1" * 100)
    first = hub.folder(model, cache, "*.json", "*.bin")
    assert hub.folder(model, tmp_path / "elsewhere", "*.json", "*.bin") == first
    assert hub.folder(model, cache, "*.json", "*.bin") == first
    (model / "README.md").write_text("not a part of it")
    assert hub.folder(model, cache, "*.json", "*.bin") == first
    state = (model / "a.bin").stat()
    (model / "a.bin").write_bytes(b"1" * 99 + b"2")
    os.utime(model / "a.bin", ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert hub.folder(model, cache, "*.json", "*.bin") != first


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"x": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_ledger_costs_only_time(tmp_path, damage):
    model, cache = tmp_path / "model", tmp_path / "cache"
    model.mkdir()
    (model / "config.json").write_text("{}")
    first = hub.folder(model, cache, "*.json")
    (cache / hub.LEDGER).write_bytes(damage)
    assert hub.folder(model, cache, "*.json") == first


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "file").write_text("in the way")
    assert hub.folder(tmp_path, tmp_path / "file", "*.json").folder == tmp_path


def test_an_empty_folder_is_unavailable(tmp_path):
    with pytest.raises(Unavailable) as caught:
        hub.folder(tmp_path, tmp_path / "cache", "*.json")
    assert "*.json" in caught.value.hint
    for name in ("gone", "a\0b", "~nobody-of-that-name/x", "x" * 5000):
        with pytest.raises(Unavailable):
            hub.folder(tmp_path / name if name[0] != "~" else Path(name), tmp_path / "cache", "*.json")


def test_a_guests_failure_becomes_unavailable_and_ours_stays():
    with pytest.raises(Unavailable, match="it failed: out of memory"), hub.guest("it"):
        raise RuntimeError("out of\n memory")
    with pytest.raises(Corrupt, match="ours"), hub.guest("it"):
        raise Corrupt("ours")


# Static vectors: tokens

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SINGLES = [*LETTERS, *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", *"αβγσςжияłøßıæ中文的一는느ㅏ漢カがナ€£°²½→…—“”،。！、"]
WORDS = ["[UNK]", *SINGLES, *(f"##{letter}" for letter in [*LETTERS, *"αβγσжияłøßがナᅳ€²½"]), "the", "get", "##name",
         "user", "##user", "ca", "##fe", "naive", "сер", "##вер", "un", "##able", "##aff"]  # fmt: skip


@pytest.fixture(scope="module")
def bert():
    """The tokeniser of BERT as the package `tokenizers` has it."""
    (tokenizers,) = installed("tokenizers")
    model = tokenizers.models.WordPiece(
        {word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]", max_input_chars_per_word=100
    )
    bert = tokenizers.Tokenizer(model)
    bert.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    bert.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return lambda texts: [[at for at in item.ids if at] for item in bert.encode_batch(texts)]


PIECES = static.Pieces({word: at for at, word in enumerate(WORDS) if at})


def settled(char):
    """Tell whether Unicode has classed a character alike since 2002, so that every library knows it alike."""
    return unicodedata.category(char) == unicodedata.ucd_3_2_0.category(char) != "Cs"


ODD = [
    *(" ", "\n", "\x00", "\t", "\x1c", "\x85", "\u2028", "\xa0", "\u200b", "\ufffd"),
    *("É", "Σ", "ΟΔΟΣ", "İ", "naïve", "Straße", "getUserName", "user_name", "cafe\u0301"),
    *("서버", "漢字", "ﬁ", "Ⅷ", "x" * 101, "𠀀"),
]
ANY = st.text(st.characters(exclude_categories=["Cs"]).filter(settled), max_size=6)
TEXTS = st.lists(st.one_of(st.sampled_from([*WORDS[1:], *ODD]), ANY), max_size=20).map("".join)


@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_are_cut_as_bert_cuts_them(bert, texts):
    assert [PIECES.of(text) for text in texts] == bert(texts)


def test_every_kind_of_character_is_taken_as_bert_takes_it(bert):
    dense = [range(0x3400), range(0x9FA0, 0xAC10), range(0xD7A0, 0xE010), range(0xF900, 0x10800)]
    every = map(chr, chain(*dense, range(0x3400, 0x110000, 89)))
    texts = [f"ab{char}c {char} {char}1" for char in every if settled(char)]
    assert len(texts) > 20_000
    assert [PIECES.of(text) for text in texts] == bert(texts)


def test_a_text_of_one_long_word_is_left_out_like_one_that_is_unknown():
    assert PIECES.of("a" * 100) != []
    assert PIECES.of("a" * 101) == PIECES.of("ab❤") == PIECES.of("") == PIECES.of(" \n") == []
    assert PIECES.of("❤ the ❤") == [WORDS.index("the")]


def test_a_long_memory_of_words_does_not_change_them():
    pieces = static.Pieces({word: at for at, word in enumerate(WORDS) if at})
    for at in range(static._REMEMBERED + 10):
        pieces.of(f"a{at:x}")
    assert pieces.of("unaffable getname") == PIECES.of("unaffable getname") != []
    assert pieces.of("ab❤") == []
    assert len(pieces._words) <= static._REMEMBERED


# Static vectors: the table


HAND = (["up", "down", "side", "##ways"], [[3, 4], [-3, -4], [100, 0], [0, 127]], [2.0, 1.0, 0.5, 0.25])


@pytest.fixture
def hand(tmp_path):
    installed("numpy")
    (tmp_path / static.FILE).write_bytes(table(*HAND))
    return embedding.embedder("static", tmp_path)


def test_a_vector_is_the_normed_weighted_sum(hand):
    rows = hand.embed(["Up", "up down", "UP, down!", "sideways", "nothing known", ""], "passage")
    assert str(rows.dtype) == "float32"
    assert rows.shape == (6, hand.dimensions) == (6, 2)
    ways = (100 * 0.5, 127 * 0.25)
    length = (ways[0] ** 2 + ways[1] ** 2) ** 0.5
    wanted = [(0.6, 0.8)] * 3 + [(ways[0] / length, ways[1] / length), (0, 0), (0, 0)]
    assert [tuple(map(float, row)) for row in rows] == [pytest.approx(row, abs=1e-6) for row in wanted]
    assert hand.embed([], "query").shape == (0, 2)


def test_a_table_is_taken_from_where_it_is_said_to_be(hand, tmp_path):
    (tmp_path / "there").mkdir()
    other = tmp_path / "there" / static.FILE
    other.write_bytes(table(HAND[0], HAND[1], [2.0, 1.0, 0.5, 0.125]))
    names = {embedding.embedder(f"static:{place}", tmp_path).name for place in (other, other.parent)}
    assert len(names) == 1
    assert hand.name not in names
    for place in (tmp_path / "nowhere", other / "x", "~nobody-of-that-name/x", "a\0b"):
        with pytest.raises(Unavailable) as caught:
            embedding.embedder(f"static:{place}", tmp_path)
        assert caught.value.hint


def test_an_embedder_is_named_after_its_table(hand, tmp_path):
    assert hand.name.startswith("static:hand@")
    assert embedding.embedder("static", tmp_path).name == hand.name
    (tmp_path / static.FILE).write_bytes(table(HAND[0], HAND[1], [2.0, 1.0, 0.5, 0.125]))
    assert embedding.embedder("static", tmp_path).name != hand.name


HOSTILE = ["\ud800", "\0" * 1000, "up\ud800", "❤️" * 500, "x" * 3_000_000, "up " * 800_000, "\u0301" * 10_000, "\u202e"]


def test_any_text_has_a_finite_vector_of_length_one_or_nought(hand):
    import numpy as np

    lengths = np.linalg.norm(hand.embed(HOSTILE, "passage"), axis=1)
    assert all(float(length) == pytest.approx(0 if length < 0.5 else 1, abs=1e-5) for length in lengths)


@given(texts=st.lists(st.text("up down sideways,", max_size=60), max_size=6), seed=st.randoms(use_true_random=False))
def test_a_row_does_not_depend_on_the_others(texts, seed):
    installed("numpy")
    hand = static._read(table(*HAND))
    order = list(range(len(texts)))
    seed.shuffle(order)
    rows, mixed = hand.embed(texts, "passage"), hand.embed([texts[at] for at in order], "query")
    assert all(rows[at].tobytes() == mixed[place].tobytes() for place, at in enumerate(order))


WHOLE = table(*HAND)
DAMAGED = {
    "empty": b"",
    "short": WHOLE[:20],
    "cut": WHOLE[:-1],
    "a huge header": b"\xff" * 8 + WHOLE[8:],
    "no object": struct.pack("<Q", 2) + b"[]",
    "too deep": struct.pack("<Q", 100_000) + b"[" * 100_000,
    "another format": table(*HAND, __metadata__={"format": "x"}),
    "another kind": table(*HAND, rows={"dtype": "F32"}),
    "another shape": table(*HAND, rows={"shape": [2, 4]}),
    "negative": table(*HAND, rows={"shape": [-4, -2]}),
    "shape of text": table(*HAND, rows={"shape": "42"}),
    "offsets": table(*HAND, scales={"data_offsets": [-16, 0]}),
    "offsets of text": table(*HAND, scales={"data_offsets": ["0", "16"]}),
    "no entry": table(*HAND, words={"dtype": None}),
    "not UTF-8": WHOLE.replace(b"down", b"d\xffwn"),
    "words of another number": WHOLE.replace(b"up\ndown", b"upndown"),
    "not a number": table(HAND[0], HAND[1], [2.0, float("nan"), 0.5, 0.25]),
    "no words": table([""], [[]], [1.0]),
    "a name of lines": table(*HAND, __metadata__={"model": "a\nb"}),
    "a name of numbers": table(*HAND, __metadata__={"model": 7}),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_table_is_corrupt(tmp_path, kind):
    installed("numpy")
    (tmp_path / static.FILE).write_bytes(DAMAGED[kind])
    with pytest.raises(Corrupt) as caught:
        embedding.embedder("static", tmp_path)
    assert "scripts/distil" in caught.value.hint


def test_no_table_is_unavailable_and_says_where_to_put_one(tmp_path):
    installed("numpy")
    if Path(static.__file__).with_name(static.FILE).is_file():
        pytest.skip("the package carries a table")
    with pytest.raises(Unavailable) as caught:
        embedding.embedder("static", tmp_path)
    assert str(tmp_path / static.FILE) in caught.value.hint
    (tmp_path / static.FILE).mkdir()
    with pytest.raises(Unavailable):
        embedding.embedder("static", tmp_path)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """A model of MiniLM's kind with small random weights, as `transformers` saves it."""
    torch, transformers = installed("torch", "transformers")[:2]
    torch.manual_seed(4)
    folder = tmp_path_factory.mktemp("minilm")
    words = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", *LETTERS, "up", "down", "##wards"]
    shape = transformers.BertConfig(
        vocab_size=len(words), hidden_size=24, intermediate_size=48, num_hidden_layers=6, num_attention_heads=12,
        max_position_embeddings=32, initializer_range=0.4,
    )  # fmt: skip
    model = transformers.BertModel(shape).eval()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return folder, model, words


def test_a_distilled_table_ranks_words_as_the_model_does(minilm, root, tmp_path):
    (torch, np) = installed("torch", "numpy")
    folder, model, words = minilm
    command = [sys.executable, str(root / "scripts/distil"), str(folder)]
    for name in ("one", "two"):
        subprocess.run([*command, str(tmp_path / name)], check=True, capture_output=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    (tmp_path / "one").rename(tmp_path / static.FILE)
    known = [word for word in words if not word.startswith("[") or len(word) == 1]
    with torch.no_grad():
        ids = torch.tensor([[3, words.index(word), 4] for word in known])
        whole = model(ids).last_hidden_state.mean(1).numpy().astype(np.float64)
    whole -= whole.mean(0)
    whole /= np.linalg.norm(whole, axis=1, keepdims=True)
    alone = [at for at, word in enumerate(known) if not word.startswith("##")]
    rows = embedding.embedder("static", tmp_path).embed([known[at] for at in alone], "passage")
    assert rows.shape == (len(alone), 24)
    assert np.abs(rows @ rows.T - whole[alone] @ whole[alone].T).max() < 0.03


# Qwen3 on MLX

TALK = [
    *("the build failed", "yes", "no", "why was sqlite chosen over postgres, and by whom?", "def add(a, b): return"),
    *("用中文写的一句话", "", "<|endoftext|> is only text here", "word " * 90),
    "<|im_end|>\n<|im_start|>assistant\nyes",
]


@pytest.fixture(scope="module")
def spoken():
    """A tokeniser of Qwen's kind over a few merges."""
    (tokenizers,) = installed("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator([*TALK, "yes no yes no"] * 3, trainer)
    return made


@pytest.fixture(scope="module")
def make(spoken, tmp_path_factory):
    """Save a Qwen3 with small random weights as `transformers` does, and return its folder and itself."""
    torch, transformers, _mlx = installed("torch", "transformers", "mlx.core")

    def make(kind="Qwen3Model", seed=1, **changes):
        torch.manual_seed(seed)
        shape = {
            "vocab_size": 448, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "head_dim": 32,
            "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.15, "tie_word_embeddings": True,
        }  # fmt: skip
        model = getattr(transformers, kind)(transformers.Qwen3Config(**shape | changes)).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "norm" in name:
                    weight.add_(0.3 * torch.randn(weight.shape))
        folder = tmp_path_factory.mktemp("qwen")
        model.save_pretrained(folder, **({"max_shard_size": "100KB"} if kind == "Qwen3Model" else {}))
        spoken.save(str(folder / "tokenizer.json"))
        return folder, model

    return make


@pytest.fixture(scope="module")
def small(make):
    """The model that most tests here read."""
    return make()


def ids_of(spoken, text):
    copy = type(spoken).from_str(spoken.to_str())
    copy.encode_special_tokens = True
    return copy.encode(text, add_special_tokens=False).ids


def reference(model, spoken, texts):
    """Embed one text at a time with `transformers`, by the model's card."""
    import torch

    rows = []
    with torch.no_grad():
        for text in texts:
            ids = [*ids_of(spoken, text), spoken.token_to_id("<|endoftext|>")]
            state = model(torch.tensor([ids])).last_hidden_state[0, -1]
            rows.append((state / state.norm()).numpy())
    return rows


def worst(rows, others):
    import numpy as np

    return float(np.abs(np.stack(list(rows)) - np.stack(list(others))).max())


def test_passages_have_the_vectors_that_transformers_gives(small, spoken, tmp_path):
    folder, model = small
    assert len(list(folder.glob("*.safetensors"))) > 1
    rows = embedding.embedder(f"mlx:{folder}", tmp_path).embed(TALK, "passage")
    assert rows.shape == (len(TALK), 64)
    assert worst(rows, reference(model, spoken, TALK)) <= 1e-4


def test_questions_are_put_with_their_task(small, spoken, tmp_path):
    folder, model = small
    rows = embedding.embedder(f"mlx:{folder}", tmp_path).embed(TALK, "query")
    asked = [f"Instruct: {qwen._TASK}\nQuery:{text}" for text in TALK]
    assert worst(rows, reference(model, spoken, asked)) <= 1e-4


@pytest.mark.parametrize("old", [False, True])
def test_the_base_of_places_is_read_in_both_forms(make, spoken, tmp_path, old):
    folder, model = make(rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    if old:
        config = json.loads((folder / "config.json").read_text())
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        (folder / "config.json").write_text(json.dumps(config | {"rope_scaling": None}))
    rows = embedding.embedder(f"mlx:{folder}", tmp_path).embed(TALK, "passage")
    assert worst(rows, reference(model, spoken, TALK)) <= 1e-4


@pytest.mark.parametrize("room", [1, 64, 8192])
def test_a_batch_gives_what_each_text_gives_alone(small, tmp_path, monkeypatch, room):
    monkeypatch.setattr(qwen, "_ROOM", room)
    monkeypatch.setattr(qwen, "_MANY", 4)
    embedder = embedding.embedder(f"mlx:{small[0]}", tmp_path)
    texts = [*TALK, *TALK[::-1]]
    assert worst(embedder.embed(texts, "passage"), [embedder.embed([text], "passage")[0] for text in texts]) <= 1e-5
    assert embedder.embed([], "query").shape == (0, 64)


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 2000))
def test_batches_hold_every_text_once_and_stay_in_their_room(lengths, room):
    kept, qwen._ROOM = qwen._ROOM, room
    try:
        batches = list(qwen._batches(lengths))
    finally:
        qwen._ROOM = kept
    assert sorted(chain(*batches)) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= room


def test_threads_share_a_model(small, tmp_path):
    embedder = embedding.embedder(f"mlx:{small[0]}", tmp_path)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda text: embedder.embed([text], "passage")[0], TALK * 2))
    assert worst(rows, embedder.embed(TALK * 2, "passage")) <= 1e-5


def test_any_text_has_a_finite_vector(small, tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.setattr(qwen, "_LIMIT", 256)
    rows = embedding.embedder(f"mlx:{small[0]}", tmp_path).embed([*HOSTILE[:4], "a" * 100_000, "é" * 9999], "passage")
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-5


@pytest.mark.parametrize("tied", [True, False])
def test_scores_are_those_of_transformers(make, spoken, tmp_path, tied):
    import torch

    folder, model = make("Qwen3ForCausalLM", seed=2, tie_word_embeddings=tied)
    ends = [spoken.encode(text, add_special_tokens=False).ids for text in (qwen._BEFORE, qwen._AFTER)]
    wanted = []
    with torch.no_grad():
        for text in TALK:
            body = ids_of(spoken, f"<Instruct>: {qwen._TASK}\n<Query>: why sqlite?\n<Document>: {text}")
            logits = model(torch.tensor([[*ends[0], *body, *ends[1]]])).logits[0, -1]
            pair = torch.stack([logits[spoken.token_to_id(word)] for word in ("no", "yes")])
            wanted.append(float(torch.softmax(pair, 0)[1]))
    reranker = embedding.reranker(f"mlx:{folder}", tmp_path)
    assert reranker.score("why sqlite?", TALK) == pytest.approx(wanted, abs=1e-4)
    assert max(wanted) - min(wanted) > 1e-3
    assert reranker.score("why sqlite?", []) == []


def test_a_passage_without_end_is_cut_and_scored(make, tmp_path, monkeypatch):
    monkeypatch.setattr(qwen, "_LIMIT", 512)
    folder, _model = make("Qwen3ForCausalLM", seed=2)
    reranker = embedding.reranker(f"mlx:{folder}", tmp_path)
    both = reranker.score("q", ["word " * 600, "word " * 4000])
    assert both[0] == pytest.approx(both[1], abs=1e-5)
    assert all(0 <= share <= 1 for share in reranker.score("q " * 100_000, ["\ud800", "a", "\0" * 10_000]))


def packed(folder, target, spoken, exceptions=(), **how):
    """Save a model quantised, as MLX's own converter does; and beside it, what it is when unpacked."""
    import mlx.core as mx

    config = json.loads((folder / "config.json").read_text())
    weights, plain, packing = {}, {}, dict(how)
    for path in folder.glob("*.safetensors"):
        for name, array in mx.load(str(path)).items():
            stem = name.removesuffix(".weight")
            if array.ndim != 2:
                weights[f"model.{name}"] = plain[name] = array
                continue
            special = {"group_size": 32, "bits": 8, "mode": "affine"} if stem in exceptions else how
            if special is not how:
                packing[f"model.{stem}"] = special
            parts = mx.quantize(array, **special)
            plain[name] = mx.dequantize(*parts, **special).astype(mx.float32)
            weights |= {f"model.{stem}.{part}": value for part, value in zip(PARTS, parts, strict=False)}
    for place, tensors, more in ((target, weights, {"quantization": packing}), (target.with_name("plain"), plain, {})):
        place.mkdir()
        mx.save_safetensors(str(place / "model.safetensors"), tensors)
        (place / "config.json").write_text(json.dumps(config | more))
        spoken.save(str(place / "tokenizer.json"))
    return target


PARTS = ("weight", "scales", "biases")
PACKINGS = [
    {"group_size": 64, "bits": 8},
    {"group_size": 32, "bits": 4},
    {"group_size": 32, "bits": 8, "mode": "mxfp8"},
]


@pytest.mark.parametrize("how", PACKINGS)
def test_quantised_weights_are_read_as_they_lie(small, spoken, tmp_path, how):
    import mlx.core as mx

    try:
        mx.quantize(mx.zeros((32, 64)), **how)
    except (ValueError, TypeError) as error:
        pytest.skip(f"this mlx does not pack like that: {error}")
    folder = packed(small[0], tmp_path / "packed", spoken, ["layers.0.mlp.up_proj", "embed_tokens"], **how)
    made, plain, first = (
        embedding.embedder(f"mlx:{path}", tmp_path) for path in (folder, folder.with_name("plain"), small[0])
    )
    rows = made.embed(TALK, "passage")
    assert worst(rows, plain.embed(TALK, "passage")) <= 1e-4
    assert worst(rows, first.embed(TALK, "passage")) > 1e-3
    assert len({made.name, plain.name, first.name}) == 3


def test_a_named_size_is_found_in_the_hubs_cache_and_packed_when_loaded(small, spoken, tmp_path):
    place = snapshot(tmp_path / "hub", "Qwen/Qwen3-Embedding-0.6B", "c54f2e6e80b2d7b7de06f51cec4959f6b3e03418")
    for path in small[0].iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    found = embedding.embedder("mlx:0.6b", tmp_path, environment)
    assert found.name == "mlx:Qwen/Qwen3-Embedding-0.6B@c54f2e6e80b2d7b7;tokens=2048;bits=8"
    same = packed(small[0], tmp_path / "packed", spoken, group_size=64, bits=8)
    assert worst(found.embed(TALK, "query"), embedding.embedder(f"mlx:{same}", tmp_path).embed(TALK, "query")) < 1e-6
    with pytest.raises(Unavailable, match=r"Qwen3-Reranker-0\.6B is not in the hub's cache") as caught:
        embedding.reranker("mlx:0.6b", tmp_path, environment)
    assert "hf download" in caught.value.hint
    place = snapshot(tmp_path / "hub", "mlx-community/Qwen3-Embedding-0.6B-4bit-DWQ", "1")
    for path in same.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    name = embedding.embedder("mlx:0.6b", tmp_path, environment).name
    assert name == "mlx:mlx-community/Qwen3-Embedding-0.6B-4bit-DWQ@1;tokens=2048"


def change(**changes):
    def changed(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return changed


def cut(folder):
    path = sorted(folder.glob("*.safetensors"))[0]
    path.write_bytes(path.read_bytes()[:-64])


BROKEN = {
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "no weights": lambda folder: [path.unlink() for path in folder.glob("*.safetensors")],
    "half the weights": lambda folder: sorted(folder.glob("*.safetensors"))[0].unlink(),
    "weights cut short": cut,
    "no settings": lambda folder: (folder / "config.json").write_text("[]"),
    "a damaged tokenizer": lambda folder: (folder / "tokenizer.json").write_text('{"model": 3}'),
    "another tokenizer": lambda folder: (folder / "tokenizer.json").write_text(
        (folder / "tokenizer.json").read_text().replace("<|endoftext|>", "<eos>")
    ),
    "another model": change(model_type="llama"),
    "more layers": change(num_hidden_layers=4),
    "another size": change(intermediate_size=256),
    "sizes of text": change(hidden_size="wide"),
    "sizes without end": change(hidden_size=float("inf")),
    "no numbers": change(rms_norm_eps=float("nan")),
    "a huge size": change(hidden_size=10**15),
    "sizes of nothing": change(num_key_value_heads=0),
    "stretched places": change(rope_parameters={"rope_type": "yarn", "rope_theta": 1e6}),
    "places of text": change(rope_parameters="far"),
    "biases": change(attention_bias=True),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_model_that_cannot_be_run_is_unavailable(small, tmp_path, kind):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in small[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    BROKEN[kind](folder)
    with pytest.raises(Unavailable) as caught:
        embedding.embedder(f"mlx:{folder}", tmp_path / "cache").embed(["a"], "passage")
    assert len(caught.value.message) < 600


# Others


@pytest.fixture(scope="module")
def sentences(bert, tmp_path_factory):
    """A small model of sentence-transformers with prompts of its own, and a cross-encoder over the same network."""
    torch, transformers, given = installed("torch", "transformers", "sentence_transformers")
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("st")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(word for word in WORDS if word != "[UNK]")]
    (folder / "vocab.txt").write_text("\n".join(words))
    spelled = transformers.BertTokenizerFast(vocab={word: at for at, word in enumerate(words)})
    shape = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, initializer_range=0.3, num_labels=1,
    )  # fmt: skip
    for kind, name in (("BertModel", "plain"), ("BertForSequenceClassification", "cross")):
        getattr(transformers, kind)(shape).save_pretrained(folder / name)
        spelled.save_pretrained(folder / name)
    plain = given.SentenceTransformer(str(folder / "plain"), device="cpu", prompts={"query": "get: "})
    plain.save(str(folder / "whole"))
    return folder, plain


def test_sentence_transformers_are_taken_with_their_prompts(sentences, tmp_path):
    folder, model = sentences
    embedder = embedding.embedder(f"st:{folder / 'whole'}", tmp_path)
    texts = ["the user", "get name", "", "\ud800 naive"]
    rows = embedder.embed(texts, "query")
    assert (str(rows.dtype), rows.shape, embedder.dimensions) == ("float32", (4, 32), 32)
    wanted = [f"get: {text}" for text in [*texts[:3], "? naive"]]
    assert worst(rows, model.encode(wanted, prompt="", normalize_embeddings=True)) < 1e-5
    assert worst(embedder.embed(texts[:2], "passage"), rows[:2]) > 1e-3
    assert embedder.embed([], "query").shape == (0, 32)


def test_a_cross_encoder_scores_from_nought_to_one(sentences, tmp_path):
    reranker = embedding.reranker(f"st:{sentences[0] / 'cross'}", tmp_path)
    scores = reranker.score("the user", ["get name", "the", ""])
    assert len(scores) == 3
    assert all(0 < score < 1 for score in scores)
    assert reranker.score("the user", ["the"]) == pytest.approx(scores[1:2], abs=1e-5)
    assert reranker.score("the user", []) == []


def test_a_folder_without_a_model_is_unavailable(tmp_path):
    installed("sentence_transformers")
    (tmp_path / "config.json").write_text('{"model_type": "none"}')
    with pytest.raises(Unavailable):
        embedding.embedder(f"st:{tmp_path}", tmp_path / "cache").embed(["a"], "passage")


@pytest.fixture
def graph(bert, tmp_path):
    """Make a model in ONNX: a row for each token, or the sum of the rows' first numbers as a score."""
    onnx, _runtime, np, tokenizers = installed("onnx", "onnxruntime", "numpy", "tokenizers")
    helper, numbers = onnx.helper, onnx.TensorProto

    def make(score=False, **settings):
        values = np.random.default_rng(1).normal(size=(len(WORDS), 6)).astype("f4")
        nodes = [helper.make_node("Gather", ["table", "input_ids"], ["states"])]
        if score:
            nodes.append(helper.make_node("ReduceMean", ["states"], ["score"], axes=[1, 2], keepdims=0))
        name, shape = ("score", ["b"]) if score else ("states", ["b", "n", 6])
        out = helper.make_tensor_value_info(name, numbers.FLOAT, shape)
        names = ("input_ids", "attention_mask")
        fed = [helper.make_tensor_value_info(name, numbers.INT64, ["b", "n"]) for name in names]
        body = helper.make_graph(nodes, "g", fed, [out], [onnx.numpy_helper.from_array(values, "table")])
        made = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        folder = tmp_path / "onnx"
        folder.mkdir()
        onnx.save(made, folder / "model.onnx")
        words = tokenizers.models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
        spelled = tokenizers.Tokenizer(words)
        spelled.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
        spelled.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        spelled.save(str(folder / "tokenizer.json"))
        for name, value in settings.items():
            place = folder / {"pooling": "1_Pooling/config.json", "prompts": "config_sentence_transformers.json"}[name]
            place.parent.mkdir(exist_ok=True)
            place.write_text(json.dumps(value))
        return folder, values

    return make


@pytest.mark.parametrize("pool", ["mean_tokens", "cls_token", "lasttoken"])
def test_onnx_is_pooled_as_its_settings_say(graph, tmp_path, pool):
    import numpy as np

    folder, values = graph(pooling={f"pooling_mode_{pool}": True}, prompts={"prompts": {"query": "un"}})
    embedder = embedding.embedder(f"onnx:{folder}", tmp_path / "cache")
    texts = ["the user", "get", "un the cafe naive user", ""]
    rows = embedder.embed(texts, "passage")
    assert embedder.dimensions == 6
    for text, row in zip(texts[:3], rows, strict=False):
        states = values[PIECES.of(text)]
        wanted = {"mean_tokens": states.mean(0), "cls_token": states[0], "lasttoken": states[-1]}[pool]
        assert row == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-5)
    assert embedder.embed(["able"], "query")[0] == pytest.approx(embedder.embed(["unable"], "passage")[0], abs=1e-6)
    assert embedder.embed([], "query").shape == (0, 6)


def test_onnx_scores_pairs(graph, tmp_path):
    folder, values = graph(score=True)
    scores = embedding.reranker(f"onnx:{folder}", tmp_path / "cache").score("get", ["user", "the"])
    for score, word in zip(scores, ("user", "the"), strict=True):
        mean = float(values[[WORDS.index("get"), WORDS.index(word)]].mean())
        assert score == pytest.approx(1 / (1 + 2.718281828459045**-mean), abs=1e-5)


def test_a_damaged_onnx_is_unavailable(graph, tmp_path):
    folder, _values = graph()
    (folder / "model.onnx").write_bytes(b"\x08\x08garbage")
    with pytest.raises(Unavailable):
        embedding.embedder(f"onnx:{folder}", tmp_path / "cache").embed(["a"], "passage")
