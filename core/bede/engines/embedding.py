"""The door to embedders and rerankers: what Bede asks of one, and how one is named in the settings.

An embedder turns texts into vectors, a reranker says how well passages answer a question. They are guests: none is
needed, none is loaded before it has to work, and nothing is ever fetched for one. Importing this module loads nothing;
`embedder` and `reranker` say what is missing without loading anything either.

    static             the small table that is distilled by scripts/distil; numpy alone
    static:/folder     the same from a folder, or the file itself
    mlx:4b  mlx:0.6b   Qwen3 from the hub's cache, on MLX
    mlx:/folder        Qwen3 from a folder
    st:NAME or folder  any model of sentence-transformers, from the hub's cache or a folder
    onnx:/folder       a model in ONNX with its tokenizer.json
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from bede.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embedder", "Kind", "Reranker", "embedder", "reranker"]

Kind = Literal["query", "passage"]


class Embedder(Protocol):
    """Something that turns texts into vectors which lie close where the texts mean alike."""

    @property
    def name(self) -> str:
        """What its vectors are tagged with: model, revision or hash, and what else they depend on.

        Embedders of one name make vectors that may be compared; those whose vectors must not be mixed never share one.
        """

    @property
    def dimensions(self) -> int:
        """How long its vectors are."""

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return a row for each text, of length 1; no text is refused.

        A row does not depend on the other texts, but for rounding. Where a text holds nothing that the embedder knows,
        its row may be all zeros, which is like nothing.

        Raises:
            Unavailable: the model, or what runs it, fails.
        """


class Reranker(Protocol):
    """Something that reads a question and a passage together."""

    @property
    def name(self) -> str:
        """Model, revision or hash, and what else its scores depend on."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return for each passage how well it answers, from 0 to 1.

        Raises:
            Unavailable: the model, or what runs it, fails.
        """


def embedder(spec: str, cache: Path, environment: Mapping[str, str] = os.environ) -> Embedder:
    """Return the embedder of that name. `cache` is a folder for what can be made again; it need not be there.

    The environment says where the hub's cache is.

    Raises:
        UsageError: no embedder is named like that.
        Unavailable: a package or the model is missing; the hint says what to install or where to put it.
        Corrupt: the model is damaged.
    """
    kind, _, model = spec.strip().partition(":")
    if spec.strip() == "static" or (kind == "static" and model):
        from bede.engines import static

        return static.embedder(cache, Path(model) if model else None)
    if kind == "mlx" and model:
        from bede.engines import qwen

        return qwen.embedder(model, cache, environment)
    if kind in ("st", "onnx") and model:
        from bede.engines import others

        return others.embedder(kind, model, cache, environment)
    raise UsageError(f"no embedder is named {spec!r}", hint=_HINT.format("static, static:/folder, "))


def reranker(spec: str, cache: Path, environment: Mapping[str, str] = os.environ) -> Reranker:
    """Return the reranker of that name; as for `embedder`, but none is static.

    Raises:
        UsageError, Unavailable, Corrupt: see `embedder`.
    """
    kind, _, model = spec.strip().partition(":")
    if kind == "mlx" and model:
        from bede.engines import qwen

        return qwen.reranker(model, cache, environment)
    if kind in ("st", "onnx") and model:
        from bede.engines import others

        return others.reranker(kind, model, cache, environment)
    raise UsageError(f"no reranker is named {spec!r}", hint=_HINT.format(""))


_HINT = "give {}mlx:4b, mlx:0.6b, mlx:/folder, st:NAME or onnx:/folder"
