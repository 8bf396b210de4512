"""Embedders and rerankers that a user names: any model of sentence-transformers, or any in ONNX.

They are loaded when first used, from the hub's cache or a folder; nothing is fetched, and no code that a model brings
along is run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from bede.engines import hub
from bede.errors import Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bede.engines.embedding import Embedder, Kind, Reranker

__all__ = ["CrossEncoder", "OnnxEmbedder", "OnnxReranker", "SentenceTransformer", "embedder", "reranker"]

_TRANSFORMERS = ("*.json", "*.txt", "*.safetensors", "*.bin", "*.model", "*/*.json", "*/*.safetensors", "*/*.bin")
_ONNX = ("tokenizer.json", "*.json", "*.onnx", "*.onnx_data", "onnx/*.onnx", "onnx/*.onnx_data", "1_Pooling/*.json")
_LETTERS = 1 << 16  # characters of a text that are read at all
_ROOM = 4096  # tokens that are run at once, padding included
_MANY = 512  # texts that are tokens at once
_LIMIT = 512  # tokens of a text that are read, where the model does not say


def embedder(kind: str, model: str, cache: Path, environment: Mapping[str, str]) -> Embedder:
    """Return an embedder of a kind, `st` or `onnx`, over a model.

    Raises:
        UsageError: the model's name is none.
        Unavailable: a package or the model is missing.
    """
    if kind == "st":
        return SentenceTransformer(_transformer(model, cache, environment))
    return OnnxEmbedder(_onnx(model, cache))


def reranker(kind: str, model: str, cache: Path, environment: Mapping[str, str]) -> Reranker:
    """Return a reranker of a kind, `st` or `onnx`, over a cross-encoder.

    Raises:
        UsageError, Unavailable: see `embedder`.
    """
    if kind == "st":
        return CrossEncoder(_transformer(model, cache, environment))
    return OnnxReranker(_onnx(model, cache))


def _transformer(model: str, cache: Path, environment: Mapping[str, str]) -> hub.Model:
    hub.need("sentence-transformers", "sentence_transformers")
    if model.startswith((".", "~")) or os.path.isabs(model):  # noqa: PTH117 (a name with a slash is a hub's name)
        return hub.folder(Path(model), cache, *_TRANSFORMERS)
    if found := hub.cached(model, environment):
        return found
    raise Unavailable(
        f"{model} is not in the hub's cache",
        hint=f"run 'hf download {model}', or give a folder: st:/folder",
        reason="model",
    )


def _onnx(model: str, cache: Path) -> hub.Model:
    hub.need("onnx", "onnxruntime", "tokenizers", "numpy")
    return hub.folder(Path(model), cache, *_ONNX)


def _clean(text: str) -> str:
    return text[:_LETTERS].encode("utf-8", "replace").decode()


def _shares(scores: NDArray[np.float32]) -> list[float]:
    """Return scores without bounds as shares from 0 to 1."""
    import numpy as np

    return [float(share) for share in 1 / (1 + np.exp(-np.clip(scores.astype(np.float64), -60, 60)))]


# sentence-transformers


class _Loaded:
    """A model of sentence-transformers that is loaded when first used, and used by one thread at a time."""

    def __init__(self, model: hub.Model) -> None:
        self.name = f"st:{model.name}"
        self._folder = str(model.folder)
        self._lock = Lock()

    def _load(self, kind: str) -> Any:
        with hub.guest(self.name):
            import sentence_transformers
            from huggingface_hub import constants
            from transformers.utils import logging

            constants.HF_HUB_OFFLINE = True  # a model may name parts that lie elsewhere
            bars: Any = logging
            bars.disable_progress_bar()
            loader = getattr(sentence_transformers, kind)
            return loader(self._folder, local_files_only=True, trust_remote_code=False)


class SentenceTransformer(_Loaded):
    """An embedder over a model of sentence-transformers, with the prompts that the model brings along."""

    @property
    def dimensions(self) -> int:
        """How long its vectors are; asking loads the model."""
        find = getattr(self._model, "get_embedding_dimension", None) or self._model.get_sentence_embedding_dimension
        return int(find())

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return the vectors."""
        import numpy as np

        with self._lock, hub.guest(self.name):
            found = self._model.encode(
                [_clean(text) for text in texts],
                prompt=self._prompt(kind),
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return hub.sound(self.name, np.asarray(found, np.float32).reshape(len(texts), self.dimensions))

    def _prompt(self, kind: Kind) -> str | None:
        names = ("query",) if kind == "query" else ("passage", "document")
        return next((self._model.prompts[name] for name in names if self._model.prompts.get(name)), None)

    @cached_property
    def _model(self) -> Any:
        return self._load("SentenceTransformer")


class CrossEncoder(_Loaded):
    """A reranker over a cross-encoder of sentence-transformers that gives one score."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the scores as shares, whatever the model makes of them itself."""
        import numpy as np

        if not passages:
            return []
        with self._lock, hub.guest(self.name):
            from torch.nn import Identity

            pairs = [(_clean(query), _clean(passage)) for passage in passages]
            found = self._model.predict(pairs, activation_fn=Identity(), show_progress_bar=False)
            return _shares(hub.sound(self.name, np.asarray(found, np.float32).reshape(len(passages))))

    @cached_property
    def _model(self) -> Any:
        return self._load("CrossEncoder")


# ONNX


class _Session:
    """A model in ONNX and its tokenizer, loaded when first used, and used by one thread at a time."""

    def __init__(self, model: hub.Model) -> None:
        self._folder = model.folder
        found = [path for pattern in ("*.onnx", "onnx/*.onnx") for path in sorted(model.folder.glob(pattern))]
        self._file = next((path for path in found if path.name == "model.onnx"), found[0] if found else None)
        if self._file is None or not (model.folder / "tokenizer.json").is_file():
            raise Unavailable(
                f"no model in {model.folder}", hint="put model.onnx and its tokenizer.json there", reason="model"
            )
        limit = self._setting("sentence_bert_config.json", "max_seq_length")
        self._limit = limit if isinstance(limit, int) and 8 <= limit <= 8192 else _LIMIT
        self.name = f"onnx:{model.name};{self._file.name};tokens={self._limit}"
        self._lock = Lock()

    def _setting(self, file: str, key: str) -> Any:
        return hub.settings(self._folder / file).get(key)

    def _run(
        self, texts: Sequence[str | tuple[str, str]]
    ) -> Iterator[tuple[list[int], NDArray[np.float32], NDArray[np.int64]]]:
        """Yield places in `texts`, what the model puts out for them, and which of their tokens count."""
        import numpy as np

        for start in range(0, len(texts), _MANY):
            encoded = self._tokenizer.encode_batch(list(texts[start : start + _MANY]))
            order = sorted(range(len(encoded)), key=lambda at: -len(encoded[at].ids))
            while order:
                size = max(1, _ROOM // max(1, len(encoded[order[0]].ids)))
                rows, order = order[:size], order[size:]
                fed = _padded([encoded[row] for row in rows])
                wanted = {item.name: fed[item.name] for item in self._session.get_inputs()}
                found = np.asarray(self._session.run(None, wanted)[0], np.float32)
                yield [start + row for row in rows], found, fed["attention_mask"]

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._limit)
        tokenizer.encode_special_tokens = True
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        return onnxruntime.InferenceSession(str(self._file), providers=["CPUExecutionProvider"])


class OnnxEmbedder(_Session):
    """An embedder over a model in ONNX; pooling and prompts are those of its sentence-transformers settings."""

    def __init__(self, model: hub.Model) -> None:
        super().__init__(model)
        prompts = self._setting("config_sentence_transformers.json", "prompts")
        self._prompts: dict[str, Any] = prompts if isinstance(prompts, dict) else {}
        pooling = hub.settings(self._folder / "1_Pooling/config.json")
        asked = [name for name in _POOLS if pooling.get(f"pooling_mode_{name}") is True]
        self._pool = _POOLS[asked[0] if asked else "mean_tokens"]

    @cached_property
    def dimensions(self) -> int:
        """How long its vectors are; asking loads the model, and runs it where it does not say."""
        with hub.guest(self.name):
            width = self._session.get_outputs()[0].shape[-1]
        return width if isinstance(width, int) else int(self.embed(["a"], "passage").shape[1])

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return the vectors."""
        import numpy as np

        names = ("query",) if kind == "query" else ("passage", "document")
        prompt = next((str(self._prompts[name]) for name in names if self._prompts.get(name)), "")
        vectors: list[Any] = [None] * len(texts)
        with self._lock, hub.guest(self.name):
            for rows, states, mask in self._run([prompt + _clean(text) for text in texts]):
                pooled = self._pool(states, mask) if states.ndim == 3 else states
                for row, vector in zip(rows, pooled, strict=True):
                    vectors[row] = vector
        if not vectors:
            return np.zeros((0, self.dimensions), np.float32)
        stacked: NDArray[np.float32] = np.stack(vectors)
        stacked /= np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-12)
        return hub.sound(self.name, stacked)


class OnnxReranker(_Session):
    """A reranker over a cross-encoder in ONNX that gives one score."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the scores as shares."""
        import numpy as np

        scores = np.zeros(len(passages), np.float32)
        with self._lock, hub.guest(self.name):
            for rows, found, _mask in self._run([(_clean(query), _clean(passage)) for passage in passages]):
                scores[rows] = found.reshape(len(rows))
        return _shares(hub.sound(self.name, scores))


def _padded(encoded: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
    """Return what a model may ask for, the longest first and the others padded on the right."""
    import numpy as np

    fed = np.zeros((3, len(encoded), max(1, len(encoded[0].ids))), np.int64)
    for at, item in enumerate(encoded):
        fed[:, at, : len(item.ids)] = item.ids, item.attention_mask, item.type_ids
    return dict(zip(("input_ids", "attention_mask", "token_type_ids"), fed, strict=True))


def _mean(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    kept = mask[:, :, None].astype("f4")
    total: NDArray[np.float32] = (states * kept).sum(1) / kept.sum(1).clip(1)
    return total


def _last(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = states[range(len(states)), mask.sum(1).clip(1) - 1]
    return found


def _first(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    return states[:, 0]


_POOLS: dict[str, Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float32]]] = {
    "mean_tokens": _mean,
    "cls_token": _first,
    "lasttoken": _last,
}
