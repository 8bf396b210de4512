"""What a wrong word was probably meant to be.

Imported where an error is told and nowhere else. Never guesses: what is not near is not suggested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A part of a name is a hint from so many letters on; and of more names than these none is meant.
_PART, _MOST = 3, 3
#: Options by meaning, as tools call them and as verbs here do: who types one of a line may have meant another of it.
_ALIKE = (
    "path file files filename paths",
    "limit top-k count max number num max-results n k",
    "since after from newer-than start",
    "until before older-than end",
    "agent agent-id author user actor who by",
    "summary message text title description body m",
    "kind type category",
    "task task-id issue ticket",
    "tags labels topic",
    "budget tokens max-tokens token-budget",
    "ttl timeout duration expires",
    "purpose reason why rationale",
    "directory dir cwd folder C",
    "branch git-branch ref",
    "at revision rev commit as-of",
    "order sort sort-by",
)


def near(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a word was probably meant to be: those with the fewest slips, else those it is a part of.

    One slip in three letters is near. Dashes before a word and upper case do not count.
    """
    bare = word.lstrip("-").lower()[:100]
    names = list(dict.fromkeys(known))
    most = len(bare) // 3
    far = {name: slips(bare, name.lstrip("-").lower()) for name in names if abs(len(name) - len(word)) <= most + 2}
    best = min(far.values(), default=most + 1)
    found = [name for name in far if far[name] == best <= most] or [name for name in names if _is_part(bare, name)]
    return tuple(found) if len(found) <= _MOST else ()


def alike(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the options that mean what a word means elsewhere."""
    bare, names = word.lstrip("-").lower(), list(dict.fromkeys(known))
    lines = [line.split() for line in _ALIKE]
    found = [name for line in lines if bare in line for name in names if name.lstrip("-") in line]
    return tuple(found[:_MOST])


def _is_part(word: str, name: str) -> bool:
    """Tell whether a word is the beginning of a name, or one of its words."""
    whole = name.lstrip("-").lower()
    return len(word) >= _PART and (whole.startswith(word) or word in re.split(r"[-_.]", whole))


def slips(word: str, name: str) -> int:
    """Return how many letters were added, left out, mistaken, or swapped with their neighbour."""
    above: list[int] = []
    row = list(range(len(name) + 1))
    for down, typed in enumerate(word, start=1):
        before, above, row = above, row, [down]
        for across, letter in enumerate(name, start=1):
            least = min(above[across] + 1, row[-1] + 1, above[across - 1] + (typed != letter))
            if before and across > 1 and typed == name[across - 2] and word[down - 2] == letter:
                least = min(least, before[across - 2] + 1)
            row.append(least)
    return row[-1]


def asked(word: str, known: Iterable[str]) -> str:
    """Return a question after what was meant, with a blank behind it; nothing where nothing is near."""
    found = near(word, known)
    return f"did you mean {' or '.join(map(repr, found))}? " if found else ""
