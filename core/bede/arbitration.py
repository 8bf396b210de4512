"""What may become a memory: the rules of `store`, cheap ones first, each refusal with its reason.

Pure: rules look at a memory's body and at what the caller found, never at a file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from bede.errors import BedeError, Rejected, UsageError
from bede.identity import canonical, check_agent, check_label, check_task
from bede.redact import redact

#: Largest canonical body of one memory, in bytes; a longer text belongs into a file that the memory names.
LARGEST = 1_000_000
LETTERS = 30
IDEOGRAPHS = 12
HANDOFF = 20
#: Faults of one memory that are told in words.
_TOLD = 6
#: A rule that a memory breaks: the reason as a word, what is wrong, and what to do about it.
Fault = tuple[str, str, str]
#: Two summaries whose character trigrams overlap this much (Jaccard) say the same thing.
SAME = 0.9
#: So many characters are compared by likeness; whatever is longer than a statement has to be the same to the letter.
_COMPARED = 2000

# The patterns are compiled when a text needs them, since that takes as long as all the rest of a call: few memories
# have a twin that is looked at word by word, or are in a script without spaces.
_WORD = r"[\w'’.:/-]+"
#: A word that makes another statement of the same words, in English; and the signs for it in Chinese and Japanese.
_TURNS = (
    r"\d|n['’]t$|^(?:not?|never|none|nothing|without|cannot|always|all|every|any|only|on|off|before|after|above|"
    r"below|enabled?|disabled?|up|down|true|false|pass(?:es|ed)?|fail(?:s|ed)?|more|less|first|last)$"
)
_TURNING = "[不没沒无無非未否禁]|ない|なし|안|못|없"

#: Scripts that write words without spaces, so that a statement takes fewer characters: Thai, Lao, Tibetan, Myanmar,
#: Khmer, Hangul, kana, Han with its extensions.
_DENSE = (
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_ARBITRATED = ("task_handoff", "status_update", "discovered_constraint", "fleet_member")


def judge(kind: str, agent: str, body: dict[str, Any], size: int) -> None:
    """Apply every rule that needs no look at the log; whatever is wrong is told at once.

    Raises:
        Rejected: with the reason `too_large`, `summary_too_short`, `learnings_empty`, `handoff_note_too_short`,
            `key_missing`, `value_missing`, `task_id_missing`, `invalid_task_id`, `invalid_agent_id`, `invalid_label`
            or `invalidates_kind_mismatch`; where there are several, the first one, and all of them in its details.
    """
    if size > LARGEST:
        refuse(
            "too_large",
            f"the memory has {size:,} bytes, at most {LARGEST:,} are kept",
            "store the text in a file and name the file",
        )
    faults = [*_names(agent, body), *_said(kind, body)]
    if faults:
        reasons = dict.fromkeys(reason for reason, _, _ in faults)
        hints = dict.fromkeys(hint for _, _, hint in faults[:_TOLD] if hint)
        more = [f"and {len(faults) - _TOLD} more"] if len(faults) > _TOLD else []
        raise Rejected(
            "; ".join([*(message for _, message, _ in faults[:_TOLD]), *more]),
            hint="; ".join(hints),
            reason=faults[0][0],
            **({"reasons": [*reasons]} if len(faults) > 1 else {}),
        )


def _names(agent: str, body: dict[str, Any]) -> Iterator[Fault]:
    for reason, check, values in (
        ("invalid_agent_id", check_agent, [agent]),
        ("invalid_task_id", check_task, [body["task_id"]] if body.get("task_id") else []),
        ("invalid_label", check_label, body.get("labels", ())),
    ):
        for value in values:
            try:
                public(check(value))
            except BedeError as error:
                yield reason, error.message, error.hint


def public(name: str) -> str:
    """Return a name that may stand in the log for ever: names are hashed into it, and no purge reaches them.

    Raises:
        UsageError: it looks like a secret.
    """
    shown = redact(name)
    if shown != name:
        raise UsageError(f"a name that looks like a secret: {shown}", hint="it could never be purged: choose another")
    return name


def _said(kind: str, body: dict[str, Any]) -> Iterator[Fault]:
    """Yield what a memory of a kind lacks."""
    if kind in _ARBITRATED:
        yield from _task_memory(kind, body)
    elif kind in ("decision", "fact"):
        yield from _keyed(kind, body)
    elif kind == "run":
        yield from _run(body)
    elif not str(body.get("summary", "")).strip():
        yield "summary_too_short", f"a {kind} needs a summary", "say it with --summary"
    if body.get("ends", {}).get("invalidates") and kind != "discovered_constraint":
        yield (
            "invalidates_kind_mismatch",
            "only a discovered_constraint can invalidate others",
            "store it with --kind discovered_constraint",
        )


def _task_memory(kind: str, body: dict[str, Any]) -> Iterator[Fault]:
    if not body.get("task_id"):
        yield "task_id_missing", f"a {kind} belongs to a task", "name it with --task-id"
    if not is_statement(str(body.get("summary", ""))):
        yield (
            "summary_too_short",
            f"the summary is no statement yet: {LETTERS} characters are needed, "
            f"{IDEOGRAPHS} in a script without spaces",
            "say what happened, to what, and with what result",
        )
    if not any(str(item).strip() for item in body.get("learnings", ())):
        yield "learnings_empty", "at least one learning is needed", "add --learnings 'what the next one should know'"
    if kind == "task_handoff" and len(str(body.get("handoff_note", "")).strip()) < HANDOFF:
        yield (
            "handoff_note_too_short",
            f"a task_handoff needs a hand-off note of {HANDOFF} characters",
            "add --handoff-note 'what to do next, and what to look out for'",
        )


def _keyed(kind: str, body: dict[str, Any]) -> Iterator[Fault]:
    if not str(body.get("key", "")).strip():
        yield "key_missing", f"a {kind} is about something", "name it with --key"
    if body.get("value") is None:
        yield "value_missing", f"a {kind} says something", "say it with --value"


def _run(body: dict[str, Any]) -> Iterator[Fault]:
    if not body.get("command"):
        yield "command_missing", "a run is of a command", "name it with --command"
    if body.get("exit_status") is None:
        yield "exit_status_missing", "a run ended somehow", "say how with --exit-status"


def is_statement(text: str) -> bool:
    """Tell whether a summary is long enough to say something: 30 characters with letters, or 12 of a dense script."""
    bare = text.strip()
    letters = sum(char.isalnum() for char in bare)
    dense = 0 if bare.isascii() else len(re.findall(_DENSE, bare))
    return dense >= IDEOGRAPHS or (len(bare) + dense * 2 >= LETTERS and letters * 2 >= len(bare))


def same_outcome(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two memories report the same outcome: learnings, note, value and exit status all equal."""
    left, right = _outcome(one), _outcome(other)
    # Python takes 1 for True; their canonical forms differ.
    return left == right and canonical(left) == canonical(right)


def _outcome(body: dict[str, Any]) -> list[Any]:
    """Return what came out; what a memory superseded is no part of it."""
    names = ("learnings", "handoff_note", "value", "rationale", "exit_status", "labels", "tags")
    return [*(body.get(name) for name in names), body.get("ends", {}).get("invalidates")]


def find_duplicate(body: dict[str, Any], others: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Refuse a memory that an active one of the same kind and task already says.

    `others` are (id, body) of those. A changed outcome is never a duplicate, however alike the summaries are; nor
    is one in which a number, a name with digits or a word such as "not" differs.

    Raises:
        Rejected: with the reason `duplicate_content`; its details name the other memory and the similarity.
    """
    said = str(body.get("summary", ""))
    for identity, other in others:
        told = str(other.get("summary", ""))
        # The lengths rule most of them out before anything is computed.
        if not SAME * len(told) - 8 <= len(said) <= len(told) / SAME + 8 or said[_COMPARED:] != told[_COMPARED:]:
            continue
        if not same_outcome(body, other) or telling(said) != telling(told):
            continue
        similarity = overlap(trigrams(said[:_COMPARED]), trigrams(told[:_COMPARED]))
        if similarity >= SAME:
            raise Rejected(
                f"memory {identity[:12]} of this task already says that",
                hint="add what is new to --learnings, or leave it",
                reason="duplicate_content",
                duplicate_of=identity,
                similarity=round(similarity, 3),
            )


def telling(text: str) -> list[str]:
    """Return the words that turn a statement into another one: those with digits, negations and quantifiers."""
    words = re.findall(_WORD, text.casefold())
    return sorted(word for word in words if re.search(_TURNS, word)) + re.findall(_TURNING, text)


def trigrams(text: str) -> set[str]:
    """Return the character trigrams of a text, case and white space folded."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return {folded[start : start + 3] for start in range(max(1, len(folded) - 2))}


def overlap(one: set[str], other: set[str]) -> float:
    """Return the Jaccard index of two sets, between 0 and 1."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def refuse(reason: str, message: str, hint: str = "") -> NoReturn:
    """Raise the refusal."""
    raise Rejected(message, hint=hint, reason=reason)
