"""The tools of pi and omp: what each is called upon, what it does, and which files it was told to change.

Tools are known by their exact names. What is not known, such as a server's tool, has its one string argument
for a target. omp's edits come as text with a header for each file, in several notations; they are kept as
patches, one a file.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from bede.quick import replace
from bede.sources.port import Call, Edit, Sort

#: Tool → what it does, and the arguments that tell what it is called upon, the first that is there.
TOOLS: dict[str, tuple[Sort, tuple[str, ...]]] = {
    "bash": ("shell", ("command",)),
    "powershell": ("shell", ("command",)),
    "ssh": ("shell", ("command",)),
    "python": ("shell", ("code",)),
    "eval": ("shell", ("code",)),
    "read": ("read", ("path", "file_path")),
    "ls": ("read", ("path",)),
    "edit": ("edit", ("path", "file_path")),
    "apply_patch": ("edit", ("path",)),
    "ast_edit": ("edit", ("path", "pat")),
    "write": ("create", ("path", "file_path")),
    "grep": ("search", ("pattern",)),
    "find": ("search", ("pattern",)),
    "glob": ("search", ("pattern",)),
    "search": ("search", ("pattern", "query")),
    "ast_grep": ("search", ("pat", "pattern")),
    "search_tool_bm25": ("search", ("query",)),
    "lsp": ("search", ("query", "file", "action")),
    "web_search": ("web", ("query",)),
    "fetch": ("web", ("url",)),
    "browser": ("web", ("url", "action")),
    "task": ("task", ("agent",)),
    "subagent": ("task", ("action",)),
}
#: omp's own word for why a call is made; every tool has it.
INTENT = ("i", "_i")
#: Most headers of files that are looked for in one patch.
HEADERS = 500

_HEADER = re.compile(
    r"^(?:\[(?P<line>[^\]\r\n#]+)#[0-9A-Za-z]+\]|§(?P<mark>[^\r\n]+)"
    r"|\*\*\* (?P<verb>Add|Update|Delete) File: (?P<file>[^\r\n]+))\r?$",
    re.MULTILINE,
)
_MOVE = re.compile(r"^\*\*\* Move to: ([^\r\n]+)", re.MULTILINE)
_OPERATIONS: dict[str, Literal["create", "update", "delete", "move"]] = {
    "add": "create",
    "create": "create",
    "update": "update",
    "delete": "delete",
    "move": "move",
    "rename": "move",
}


def is_shell(tool: str) -> bool:
    """Tell whether a tool runs a command that ends with a status."""
    return tool in ("bash", "powershell", "ssh")


def call(block: dict[str, Any]) -> Call:
    """Return the call that a block of an assistant's message makes; its id is '' where there is none."""
    tool, arguments = string(block.get("name")), table(block.get("arguments"))
    sort, names = TOOLS.get(tool, ("mcp" if tool.startswith("mcp__") else "other", ()))
    target = next((value for name in names if (value := string(arguments.get(name)))), "")
    device = target.startswith("xd://") and tool in ("read", "write")
    edits = _edits(sort, arguments) if not device else ()
    if tool not in TOOLS:
        texts = [v for k, v in arguments.items() if k not in INTENT and isinstance(v, str)]
        target = texts[0] if len(texts) == 1 else ""
    elif not target and edits:
        target = edits[0].path
    elif tool == "read" and target.startswith(("http://", "https://")):
        sort = "web"
    if device:
        sort = "mcp" if target.startswith("xd://mcp__") else "other"
    return Call(string(block.get("id")), tool, target, sort, edits)


def done(details: dict[str, Any]) -> tuple[Edit, ...]:
    """Return what omp's edit tells that it changed, where it names the file."""
    path, operation = string(details.get("path")), _OPERATIONS.get(string(details.get("op")))
    if not path or operation is None:
        return ()
    moved = string(details.get("move")) or string(details.get("rename"))
    return (Edit(path, operation, patch=string(details.get("diff")), moved_to=moved),)


def _edits(sort: str, arguments: dict[str, Any]) -> tuple[Edit, ...]:
    path = string(arguments.get("path")) or string(arguments.get("file_path"))
    if sort == "create":
        return (Edit(path, "create", new=string(arguments.get("content"))),) if path else ()
    if sort != "edit":
        return ()
    if text := string(arguments.get("input")) or string(arguments.get("patch")):
        return _patches(text, path)
    operation = _OPERATIONS.get(string(arguments.get("op")), "update")
    moved = string(arguments.get("rename")) or string(arguments.get("move"))
    parts = arguments.get("edits")
    changes = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else [arguments]
    return tuple(_change(path, operation, change, moved) for change in changes) if path else ()


def _change(path: str, operation: str, told: dict[str, Any], moved: str) -> Edit:
    old = string(told.get("oldText")) or string(told.get("old_text"))
    new = string(told.get("newText")) or string(told.get("new_text"))
    return Edit(path, _OPERATIONS[operation], old, new, string(told.get("diff")), moved)


def _patches(text: str, path: str) -> tuple[Edit, ...]:
    """Return one edit for each file that a patch has a header for; with none or one it is about `path`."""
    found = []
    for header in _HEADER.finditer(text):
        found.append(header)
        if len(found) == HEADERS:
            break
    if not found:
        return (Edit(path, "update", patch=text),) if path else ()
    if len(found) == 1 and path:  # said twice: the argument tells where the file is from
        return (replace(_patch(found[0], text[found[0].end() :]), path=path),)
    ends = [header.start() for header in found[1:]] + [len(text)]
    return tuple(_patch(header, text[header.end() : end]) for header, end in zip(found, ends, strict=True))


def _patch(header: re.Match[str], body: str) -> Edit:
    path = header["line"] or header["mark"] or header["file"]
    operation = _OPERATIONS.get((header["verb"] or "update").lower(), "update")
    move = _MOVE.match(body.lstrip("\r\n")) if header["verb"] else None
    body = body.removeprefix("\r").removeprefix("\n")
    return Edit(path.strip(), "move" if move else operation, patch=body, moved_to=move[1].strip() if move else "")


def string(value: Any) -> str:
    """Return a string as it is, anything else as ''."""
    return value if isinstance(value, str) else ""


def table(value: Any) -> dict[str, Any]:
    """Return an object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}
