"""Which files a tool call writes: named by its input, in lists in it, or in the patch it holds.

Tools and agents differ in how they spell it, so every spelling is looked for. Order is kept, a file named twice is
there once. Nothing in here raises, and nothing touches the disk.
"""

from __future__ import annotations

import re

from bede.agents.loose import mapping, parsed, sequence

#: Most files of one call, those behind them being let go, and longest name of one.
MOST, LONGEST = 1000, 4096
BEGIN = "*** Begin Patch"

_ONE = (
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "notebookPath",
    "target_notebook",
    "TargetFile",
    "target_file",
    "targetFile",
    "old_path",
    "oldPath",
    "new_path",
    "newPath",
    "uri",
)
_MANY = ("paths", "files", "file_paths", "filePaths", "resources", "edits", "replacements", "changes")
_PATCHES = ("command", "patchText", "patch_text", "patch", "input")
#: Patterns are compiled when they are needed first, since most calls need none.
_HEADER = r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): *(\S[^\r\n]*)"
#: The head of a line-anchored edit of omp's, `[file#tag]`.
_ANCHOR = r"(?m)^\[([^\]\r\n#]+)#\w+\]"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+://"


def paths(given: object) -> tuple[str, ...]:
    """Return the files that an edit tool's input names."""
    if isinstance(given, str) and not isinstance(decoded := parsed(given), dict):
        return _kept(patched(given) if decoded is None else _each(decoded))
    said = mapping(given)
    found = [said.get(name) for name in _ONE]
    for name in _MANY:
        found += _each(said.get(name))
    for name in _PATCHES:
        if isinstance(patch := said.get(name), str):
            found += patched(patch)
    return _kept(found)


def patched(patch: str) -> list[object]:
    """Return the files that a patch in `apply_patch`'s notation adds, updates, deletes and moves."""
    if BEGIN + "\\n" in patch:
        patch = patch.replace("\\n", "\n")
    found: list[str] = re.findall(_HEADER, patch) or re.findall(_ANCHOR, patch)
    return [path.rstrip() for path in found]


def scripted(given: object) -> tuple[str, ...]:
    """Return the files of a patch that a shell command hands on; nothing for any other command."""
    said = mapping(given)
    for name in ("command", "cmd", "CommandLine", "script"):
        if isinstance(command := said.get(name), str) and BEGIN in command:
            return _kept(patched(command))
    return ()


def _each(value: object) -> list[object]:
    """Return what a list names: files as such, or objects that name one."""
    found: list[object] = []
    for item in sequence(value)[:MOST]:
        found += [item] if isinstance(item, str) else [mapping(item).get(name) for name in _ONE]
    return found


def _kept(found: list[object]) -> tuple[str, ...]:
    kept = dict.fromkeys(path for item in found if isinstance(item, str) and (path := _plain(item)))
    return tuple(kept)[:MOST]


def _plain(path: str) -> str:
    """Return a path as the system knows it; '' for what is none: too long, or the address of something else."""
    if not 0 < len(path) <= LONGEST or "\0" in path:
        return ""
    return local(path)


def local(uri: str) -> str:
    """Return the path in a `file:` URI; any other text without a scheme as it is, '' for one with.

    Some agents write `/c:/…` for a drive.
    """
    if uri[:1] == "/" and uri[2:4] == ":/":
        return uri[1:]
    if "://" not in uri or not re.match(_SCHEME, uri):
        return uri
    if not uri.lower().startswith("file://"):
        return ""
    from urllib.parse import unquote

    path = unquote(uri[7:])
    host, slash, rest = path.partition("/")
    if host and host != "localhost":
        return f"//{host}/{rest}"
    return rest if re.match(r"[A-Za-z]:", rest) else slash + rest
