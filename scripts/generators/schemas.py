"""The JSON Schemas of both ends of every verb, in one file: what a change of them is diffed against."""

from __future__ import annotations

import json
from collections.abc import Iterable

from bede.operation import Operation
from bede.schemas import ERROR, input_schema, output_schema


def whole(verbs: Iterable[Operation]) -> str:
    """Return the file: for each verb that has a result, what it takes and what it answers, and the error object."""
    ends = {
        verb.name: {"input": input_schema(verb), "output": output_schema(verb)} for verb in verbs if has_result(verb)
    }
    return json.dumps({"error": ERROR, "verbs": ends}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def has_result(verb: Operation) -> bool:
    """Tell whether a verb answers with a record; `serve` speaks for itself."""
    return hasattr(verb.result(), "SCHEMA")
