"""Qwen3 on MLX: an embedder and a reranker, run from the weights that lie in the hub's cache or a folder.

The network is written out here on plain MLX: attention in groups with normed queries and keys, rotary places, gated
feed-forward. Weights may be plain or quantised as MLX does it; plain ones of the named sizes are quantised to 8 bits
when loaded. Nothing is loaded before the first text. Texts are run in batches of like length, padded on the right,
where a causal network never looks; so a batch gives what each text alone gives, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from bede.engines import hub
from bede.errors import Unavailable, UsageError

if TYPE_CHECKING:
    import mlx.core as mx
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from bede.engines.embedding import Kind

__all__ = ["QwenEmbedder", "QwenReranker", "embedder", "reranker"]

#: Where a size is looked for, in this order: what is quantised already, then what Qwen publishes.
_MADE = {
    "Embedding": ("mlx-community/{}-4bit-DWQ", "mlx-community/{}-mxfp8", "mlx-community/{}-8bit", "Qwen/{}"),
    "Reranker": ("mlx-community/{}-4bit", "mlx-community/{}-mxfp8", "mlx-community/{}-8bit", "Qwen/{}"),
}
_SIZES = {"4b": "4B", "0.6b": "0.6B"}
_FILES = ("config.json", "tokenizer.json", "*.safetensors")

_LIMIT = 2048  # tokens of a text that are read
_ROOM = 8192  # tokens that are run at once, padding included
_MANY = 512  # texts that are tokens at once
_LETTERS = 16 * _LIMIT  # characters that are made tokens of at all
_BITS, _GROUP = 8, 64  # how plain weights of a named size are quantised

#: The form that the models were trained on; the task is ours. Passages stand alone: their vectors do not depend on it.
_TASK = "Given a question about past work on a software project, retrieve the messages that answer it"
_QUERY = "Instruct: {}\nQuery:{}"
_END = "<|endoftext|>"
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_PAIR = "<Instruct>: {}\n<Query>: {}\n<Document>: {}"
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def embedder(model: str, cache: Path, environment: Mapping[str, str]) -> QwenEmbedder:
    """Return the embedder of a size, or of a folder.

    Raises:
        UsageError: it is neither.
        Unavailable: MLX or the model is missing, or the model is none of Qwen3.
    """
    found, bits = _find("Embedding", model, cache, environment)
    return QwenEmbedder(found, bits)


def reranker(model: str, cache: Path, environment: Mapping[str, str]) -> QwenReranker:
    """Return the reranker of a size, or of a folder.

    Raises:
        UsageError, Unavailable: see `embedder`.
    """
    found, bits = _find("Reranker", model, cache, environment)
    return QwenReranker(found, bits)


def _find(family: str, model: str, cache: Path, environment: Mapping[str, str]) -> tuple[hub.Model, int]:
    """Return where the model lies, and to how many bits plain weights are quantised: 0 leaves them as they are."""
    size = _SIZES.get(model.lower())
    if size is None and "/" not in model and "\\" not in model:
        raise UsageError(f"no size of Qwen3 is named {model!r}", hint="give mlx:4b, mlx:0.6b or mlx:/folder")
    hub.need("mlx", "mlx", "numpy", "tokenizers")
    if size is None:
        return hub.folder(Path(model), cache, *_FILES), 0
    names = [form.format(f"Qwen3-{family}-{size}") for form in _MADE[family]]
    for found in filter(None, (hub.cached(name, environment) for name in names)):
        return found, _BITS
    raise Unavailable(
        f"Qwen3-{family}-{size} is not in the hub's cache",
        hint=f"run 'hf download {names[0]}' (or {', '.join(names[1:])}), or give a folder: mlx:/folder",
        reason="model",
    )


class QwenEmbedder:
    """An embedder over one model: the normed state after the last token."""

    def __init__(self, model: hub.Model, bits: int = 0) -> None:
        self._source = _Source(model, bits)
        self.name = self._source.name
        self.dimensions = self._source.shape.width

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return the vectors; a question is put to the model with the task that it asks about."""
        import numpy as np

        asked = [_QUERY.format(_TASK, text) if kind == "query" else text for text in texts]
        with hub.guest(self.name), self._source.opened() as network:
            vectors = np.zeros((len(texts), self.dimensions), np.float32)
            for rows, states in network.run(asked, lambda ids: [*ids[: _LIMIT - 1], network.end]):
                vectors[rows] = states
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return hub.sound(self.name, vectors)


class QwenReranker:
    """A reranker over one model: how much likelier the next word is a yes than a no."""

    def __init__(self, model: hub.Model, bits: int = 0) -> None:
        self._source = _Source(model, bits)
        self.name = self._source.name

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the share of yes. Of a long question the beginning is read; the passage has the room that is left."""
        import numpy as np

        pairs = [_PAIR.format(_TASK, query[:_LIMIT], passage) for passage in passages]
        scores = np.zeros(len(passages), np.float32)
        with hub.guest(self.name), self._source.opened() as network:
            before, after, answer = network.form()
            room = _LIMIT - len(before) - len(after)
            for rows, states in network.run(pairs, lambda ids: [*before, *ids[:room], *after]):
                scores[rows] = states @ answer
        return [float(share) for share in 1 / (1 + np.exp(-np.clip(hub.sound(self.name, scores), -60, 60)))]


# The network


@dataclass(frozen=True, slots=True)
class _Shape:
    """The sizes of a Qwen3."""

    width: int
    inner: int
    layers: int
    heads: int
    groups: int
    head: int
    words: int
    epsilon: float
    base: float

    def outputs(self) -> Iterator[tuple[str, int]]:
        """Yield every weight that has to be there, and the number of its rows."""
        inside = {
            "input_layernorm": self.width,
            "post_attention_layernorm": self.width,
            "self_attn.q_norm": self.head,
            "self_attn.k_norm": self.head,
            "self_attn.q_proj": self.heads * self.head,
            "self_attn.k_proj": self.groups * self.head,
            "self_attn.v_proj": self.groups * self.head,
            "self_attn.o_proj": self.width,
            "mlp.gate_proj": self.inner,
            "mlp.up_proj": self.inner,
            "mlp.down_proj": self.width,
        }
        yield from (("embed_tokens", self.words), ("norm", self.width))
        for at in range(self.layers):
            yield from ((f"layers.{at}.{name}", rows) for name, rows in inside.items())


def _shape(config: Mapping[str, Any], folder: Path) -> _Shape:
    """Read the sizes; older configurations have the base of the places at the top, newer ones in an object."""
    try:
        places = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if config["model_type"] != "qwen3" or config.get("attention_bias") or config.get("use_sliding_window"):
            raise ValueError("it is no plain Qwen3")
        if places.get("rope_type", places.get("type", "default")) != "default" or config["hidden_act"] != "silu":
            raise ValueError("its places or gates are of a kind that is not built in")
        shape = _Shape(
            width=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            groups=int(config["num_key_value_heads"]),
            head=int(config["head_dim"]),
            words=int(config["vocab_size"]),
            epsilon=float(config["rms_norm_eps"]),
            base=float(places.get("rope_theta") or config.get("rope_theta") or 1_000_000),
        )
        if min(shape.width, shape.inner, shape.layers, shape.groups, shape.head) < 1 or shape.heads % shape.groups:
            raise ValueError("its sizes do not fit")
        return shape
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise Unavailable(
            f"not a model that can be run here: {folder}: {error}", hint="put Qwen3-Embedding or Qwen3-Reranker there"
        ) from error


class _Source:
    """A model on disk, of which no more is read than its settings before it has to work."""

    def __init__(self, model: hub.Model, bits: int) -> None:
        self._folder = model.folder
        self._config = hub.settings(model.folder / "config.json")
        for pattern in _FILES:
            if not any(model.folder.glob(pattern)):
                raise Unavailable(f"no {pattern} in {model.folder}", hint="put the whole model there", reason="model")
        self.shape = _shape(self._config, model.folder)
        self._bits = 0 if self._config.get("quantization") else bits
        self.name = f"mlx:{model.name};tokens={_LIMIT}" + (f";bits={self._bits}" if self._bits else "")
        self._lock = Lock()
        self._network: _Network | None = None

    @contextmanager
    def opened(self) -> Iterator[_Network]:
        """Give the loaded model to one thread at a time."""
        with self._lock:
            if self._network is None:
                self._network = self._load()
            yield self._network

    def _load(self) -> _Network:
        import mlx.core as mx
        from tokenizers import Tokenizer

        weights: dict[str, mx.array] = {}
        for path in sorted(self._folder.glob("*.safetensors")):
            loaded: Any = mx.load(str(path))
            weights |= {name.removeprefix("model."): array for name, array in loaded.items()}
        for name, rows in self.shape.outputs():
            if f"{name}.weight" not in weights or weights[f"{name}.weight"].shape[0] != rows:
                raise Unavailable(f"the weights {name} are missing or of another size: {self._folder}", reason="model")
        packing = dict(self._config.get("quantization") or {})
        if self._bits:
            packing = {"group_size": _GROUP, "bits": self._bits}
            weights = dict(_quantised(weights, packing))
        return _Network(self.shape, weights, packing, Tokenizer.from_file(str(self._folder / "tokenizer.json")))


def _quantised(weights: dict[str, mx.array], packing: Mapping[str, int]) -> Iterator[tuple[str, mx.array]]:
    """Yield the weights with every matrix packed, one at a time, so that never all are in memory plain."""
    import mlx.core as mx

    for name in list(weights):
        array = weights.pop(name)
        if array.ndim != 2 or array.shape[1] % packing["group_size"]:
            yield name, array
            continue
        parts = mx.quantize(array, group_size=packing["group_size"], bits=packing["bits"])
        mx.eval(*parts)
        yield from zip((name, name[:-6] + "scales", name[:-6] + "biases"), parts, strict=True)


class _Network:
    """A loaded model."""

    def __init__(
        self, shape: _Shape, weights: Mapping[str, mx.array], packing: Mapping[str, Any], tokenizer: Tokenizer
    ) -> None:
        self._shape = shape
        self._weights = weights
        self._packing = {key: value for key, value in packing.items() if key in ("group_size", "bits", "mode")}
        self._exceptions = {key.removeprefix("model."): value for key, value in packing.items() if _is_map(value)}
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._form = [tokenizer.encode(text, add_special_tokens=False).ids for text in (_BEFORE, _AFTER)]
        self.end = self._word(_END)
        # From here on a text that spells the end of a message is only a text.
        tokenizer.encode_special_tokens = True

    def form(self) -> tuple[list[int], list[int], NDArray[np.float32]]:
        """Return what stands before and after a pair, and the direction in which yes lies from no."""
        import mlx.core as mx
        import numpy as np

        head = "lm_head" if "lm_head.weight" in self._weights else "embed_tokens"
        yes, no = self._rows(head, mx.array([self._word("yes"), self._word("no")])).astype(mx.float32)
        return self._form[0], self._form[1], np.array(yes - no)

    def _word(self, word: str) -> int:
        found = self._tokenizer.token_to_id(word)
        if found is None:
            raise Unavailable(f"the model's tokenizer does not know {word!r}", hint="put a Qwen3 model there")
        return int(found)

    def run(
        self, texts: Sequence[str], framed: Callable[[list[int]], list[int]]
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Yield places in `texts`, and the network's last states for them."""
        for start in range(0, len(texts), _MANY):
            clean = [_clean(text) for text in texts[start : start + _MANY]]
            lists = [framed(item.ids) for item in self._tokenizer.encode_batch(clean, add_special_tokens=False)]
            for rows in _batches([len(ids) for ids in lists]):
                yield [start + row for row in rows], self._last([lists[row] for row in rows])

    def _last(self, lists: list[list[int]]) -> NDArray[np.float32]:
        import mlx.core as mx
        import numpy as np

        longest = max(map(len, lists))
        ids = mx.array([[*ids, *[0] * (longest - len(ids))] for ids in lists])
        ends = mx.array([len(ids) - 1 for ids in lists])
        states = self._states(ids)[mx.arange(len(lists)), ends]
        found = np.array(self._norm(states, "norm").astype(mx.float32))
        mx.clear_cache()
        return found

    def _states(self, ids: mx.array) -> mx.array:
        states = self._rows("embed_tokens", ids)
        for layer in (f"layers.{at}" for at in range(self._shape.layers)):
            states += self._attention(self._norm(states, f"{layer}.input_layernorm"), f"{layer}.self_attn")
            states += self._feed(self._norm(states, f"{layer}.post_attention_layernorm"), f"{layer}.mlp")
        return states

    def _attention(self, x: mx.array, name: str) -> mx.array:
        import mlx.core as mx

        shape, (rows, length, _) = self._shape, x.shape

        def heads(part: str) -> mx.array:
            return self._linear(x, f"{name}.{part}_proj").reshape(rows, length, -1, shape.head)

        def placed(part: str) -> mx.array:
            normed = self._norm(heads(part), f"{name}.{part}_norm").swapaxes(1, 2)
            return mx.fast.rope(normed, shape.head, traditional=False, base=shape.base, scale=1.0, offset=0)

        mixed = mx.fast.scaled_dot_product_attention(
            placed("q"), placed("k"), heads("v").swapaxes(1, 2), scale=shape.head**-0.5, mask="causal"
        )
        return self._linear(mixed.swapaxes(1, 2).reshape(rows, length, -1), f"{name}.o_proj")

    def _feed(self, x: mx.array, name: str) -> mx.array:
        import mlx.core as mx

        gate = self._linear(x, f"{name}.gate_proj")
        return self._linear(gate * mx.sigmoid(gate) * self._linear(x, f"{name}.up_proj"), f"{name}.down_proj")

    def _norm(self, x: mx.array, name: str) -> mx.array:
        import mlx.core as mx

        return mx.fast.rms_norm(x, self._weights[f"{name}.weight"], self._shape.epsilon)

    def _linear(self, x: mx.array, name: str) -> mx.array:
        import mlx.core as mx

        weight, scales, biases = self._parts(name)
        if scales is None:
            return x @ weight.T
        return mx.quantized_matmul(x, weight, scales, biases, transpose=True, **self._packed(name))

    def _rows(self, name: str, ids: mx.array) -> mx.array:
        """Return rows of a matrix, unpacked."""
        import mlx.core as mx

        weight, scales, biases = self._parts(name)
        if scales is None:
            return weight[ids]
        return mx.dequantize(weight[ids], scales[ids], None if biases is None else biases[ids], **self._packed(name))

    def _parts(self, name: str) -> tuple[mx.array, mx.array | None, mx.array | None]:
        found = self._weights
        return found[f"{name}.weight"], found.get(f"{name}.scales"), found.get(f"{name}.biases")

    def _packed(self, name: str) -> dict[str, Any]:
        """Return how a matrix is packed; a model may make exceptions for single ones."""
        return {**self._packing, **self._exceptions.get(name, {})}


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _clean(text: str) -> str:
    return text[:_LETTERS].encode("utf-8", "replace").decode()


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield places, like lengths together, the longest first: what memory is needed shows at once."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > _ROOM:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch
