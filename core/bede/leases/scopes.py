"""What a lease covers, and when two of them would touch one file. Pure.

A resource is a key (see `keys`) with a scope: one `file`, a `folder` with all below it, or a `glob` with all it
matches, where `**` stands for any number of folders. Two globs are held against one another by what stands before their
first wildcard alone: they may be called overlapping though no file matches both, never the other way round.
"""

from __future__ import annotations

FILE, FOLDER, GLOB = "file", "folder", "glob"
#: What the files of a linked worktree are keyed under, each below the worktree's name.
WORKTREE = "@worktree/"
_MAGIC = ("*", "?", "[")


def is_magic(text: str) -> bool:
    """Tell whether a part of a path has a wildcard in it."""
    return any(mark in text for mark in _MAGIC)


def overlap(one: str, one_scope: str, other: str, other_scope: str) -> bool:
    """Tell whether two resources may have a file in common."""
    if GLOB not in (one_scope, other_scope):
        if one == other:
            return True
        return (one_scope == FOLDER and below(other, one)) or (other_scope == FOLDER and below(one, other))
    if one_scope != GLOB:
        one, one_scope, other, other_scope = other, other_scope, one, one_scope
    if other_scope == FILE:
        return matches(one, other)
    if other_scope == FOLDER:
        return _reaches(one, other)
    first, second = stem(one), stem(other)
    return first == second or below(first, second) or below(second, first)


def covers(held: str, held_scope: str, wanted: str, scope: str) -> bool:
    """Tell whether who has `held` has all of `wanted`."""
    if (held, held_scope) == (wanted, scope):
        return True
    if held_scope == FOLDER:
        return below(stem(wanted) if scope == GLOB else wanted, held) or (scope == GLOB and stem(wanted) == held)
    return held_scope == GLOB and scope == FILE and matches(held, wanted)


def below(resource: str, folder: str) -> bool:
    """Tell whether a key lies in a folder, at any depth; `.` is the whole main checkout."""
    if folder == ".":
        return resource != "." and not f"{resource}/".startswith(WORKTREE)
    return resource.startswith(folder + "/")


def stem(pattern: str) -> str:
    """Return the folder that a pattern's wildcards begin in."""
    parts = pattern.split("/")
    fixed = next((number for number, part in enumerate(parts) if is_magic(part)), len(parts))
    return "/".join(parts[:fixed]) or "."


def tail(resource: str) -> str:
    """Return a key as the main checkout would have it, whatever worktree it is of."""
    if not resource.startswith(WORKTREE):
        return resource
    return resource[len(WORKTREE) :].partition("/")[2] or "."


def matches(pattern: str, resource: str) -> bool:
    """Tell whether a pattern matches a file's key; one of the main checkout never reaches into a worktree."""
    if pattern.startswith(WORKTREE) != resource.startswith(WORKTREE):
        return False
    parts = resource.split("/")
    # After each part of the pattern: which numbers of leading parts it can have eaten.
    eaten = {0}
    for wanted in pattern.split("/"):
        if wanted == "**":
            eaten = set(range(min(eaten), len(parts) + 1))
        else:
            eaten = {count + 1 for count in eaten if count < len(parts) and _fits(parts[count], wanted)}
        if not eaten:
            return False
    return len(parts) in eaten


def _reaches(pattern: str, folder: str) -> bool:
    """Tell whether a pattern can match anything in a folder."""
    start = stem(pattern)
    if start == folder or below(start, folder):
        return True
    if folder == "." or pattern.startswith(WORKTREE) != folder.startswith(WORKTREE):
        return False
    parts = folder.split("/")
    for number, part in enumerate(pattern.split("/")):
        if part == "**":
            return True
        if number == len(parts):
            return True
        if not _fits(parts[number], part):
            return False
    return False


def _fits(name: str, wanted: str) -> bool:
    if not is_magic(wanted):
        return name == wanted
    from fnmatch import fnmatchcase

    return fnmatchcase(name, wanted)
