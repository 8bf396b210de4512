"""What a client declared as its tools, and how a step of a script is said in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

#: The name under which Bede's server stands in every agent's configuration.
SERVER = "bede"
SHELL = ("Bash", "shell_command", "exec_command", "run_shell_command", "shell", "local_shell")
CREATE = ("Write", "write_file", "create", "create_file")
EDIT = ("Edit", "replace", "str_replace", "str_replace_editor", "edit_file")
READ = ("Read", "read_file", "view")
SEARCH = ("ToolSearch", "tool_search")

PATH_KEYS = ("file_path", "filePath", "path", "filename", "absolute_path")
CONTENT_KEYS = ("content", "file_text", "contents", "text")
OLD_KEYS = ("old_string", "oldString", "old_str", "oldText")
NEW_KEYS = ("new_string", "newString", "new_str", "newText")

#: A harmless value by type, for what a tool needs and a script says nothing about.
_HARMLESS: Json = {"boolean": False, "number": 60, "integer": 60, "array": [], "object": {}}


@dataclass(frozen=True)
class Tool:
    """One tool: its name on the wire, its schema, and how it is called.

    `kind` is `function`, `custom` (free text), `tool_search` (the client looks tools up) or `hosted` (not for us).
    """

    name: str
    schema: Json = field(default_factory=dict)
    kind: str = "function"
    namespace: str = ""

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def params(self) -> Json:
        """The parameters by name."""
        return self.schema.get("properties") or {}


@dataclass(frozen=True)
class Call:
    """One call of a tool, as it goes over the wire."""

    tool: Tool
    args: Any
    id: str

    @property
    def args_text(self) -> str:
        """The arguments as text."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


def declared(api: str, body: Json) -> list[Tool]:
    """Return the tools of a request, also those that an earlier look-up brought up."""
    items = list(body.get("tools") or [])
    if api == "responses" and isinstance(body.get("input"), list):
        for item in body["input"]:
            if item.get("type") == "tool_search_output":
                items += item.get("tools") or []
    return [tool for item in items if isinstance(item, dict) for tool in _tools(api, item)]


def _tools(api: str, item: Json) -> Iterator[Tool]:
    if api == "gemini":
        for each in item.get("functionDeclarations") or []:
            yield Tool(each["name"], each.get("parametersJsonSchema") or each.get("parameters") or {})
    elif api == "anthropic":
        yield Tool(item.get("name", ""), item.get("input_schema") or {})
    elif api == "chat":
        each = item.get("function") or {}
        yield Tool(each.get("name", ""), each.get("parameters") or {})
    else:
        yield from _of_responses(item)


def _of_responses(item: Json) -> Iterator[Tool]:
    kind = item.get("type", "")
    if kind in ("function", "custom"):
        yield Tool(item["name"], item.get("parameters") or {}, kind)
    elif kind == "namespace":
        for each in item.get("tools") or []:
            sort = "custom" if each.get("type") == "custom" else "function"
            yield Tool(each.get("name", ""), each.get("parameters") or {}, sort, item.get("name") or "")
    elif kind == "tool_search" and item.get("execution") == "client":
        yield Tool("tool_search", item.get("parameters") or {}, "tool_search")
    else:
        yield Tool(kind, {}, "hosted")


def find(tools: Sequence[Tool], *names: str) -> Tool | None:
    """Return the first tool of one of these names, which count without case and punctuation."""
    for name in names:
        for tool in tools:
            if _plain(tool.name) == _plain(name) and tool.kind != "hosted":
                return tool
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def resolve(call: Json, tools: Sequence[Tool], cwd: str, call_id: str, said: Sequence[Json] = ()) -> Call | None:
    """Return a step's call as a call of a tool that this client declared; None where it has no such tool.

    A call is one of {"shell": command}, {"read": path}, {"edit": {path, line, old, new}}, {"mcp": {tool, args}}, and
    {"search": query}, which the script makes itself to look a tool up. `said` is what the request holds.
    """
    if "mcp" in call:
        return _mcp(call["mcp"], tools, call_id, said)
    if "search" in call:
        tool = find(tools, *SEARCH)
        return Call(tool, {"query": call["search"]}, call_id) if tool else None
    if "shell" in call:
        return _shell(call["shell"], tools, call_id)
    if "read" in call:
        tool = find(tools, *READ)
        if tool is None:
            return _shell(f"cat {call['read']}", tools, call_id)
        return Call(tool, _filled(tool, {_pick(tool, PATH_KEYS): f"{cwd}/{call['read']}"}), call_id)
    return _edit(call["edit"], tools, cwd, call_id, said)


def _mcp(wanted: Json, tools: Sequence[Tool], call_id: str, said: Sequence[Json]) -> Call | None:
    args, suffix = wanted.get("args") or {}, _plain(SERVER + wanted["tool"])
    for tool in tools:
        if tool.kind == "function" and _plain(tool.full_name).endswith(suffix):
            return Call(tool, dict(args), call_id)
    device, writer = _named(r"xd://mcp__bede_{}\b", wanted["tool"], said), find(tools, "write")
    if device and writer:  # Oh My Pi shows MCP tools as devices that the arguments are written to
        filled = _filled(writer, {"path": device, "content": json.dumps(args)})
        return Call(writer, filled, call_id)
    return None


def deferred(wanted: str, said: Sequence[Json]) -> str:
    """Return the full name of one of our tools that the client only announced by name; '' for none."""
    return _named(r"\bmcp__bede__{}\b", wanted, said)


def _named(form: str, wanted: str, said: Sequence[Json]) -> str:
    pattern = re.compile(form.format(re.escape(wanted)))
    return next((found[0] for each in said if (found := pattern.search(each["text"]))), "")


def _shell(command: str, tools: Sequence[Tool], call_id: str) -> Call | None:
    tool = find(tools, *SHELL)
    if tool is None:
        return None
    key = "cmd" if "cmd" in tool.params else "command"
    is_list = (tool.params.get(key) or {}).get("type") == "array"
    return Call(tool, _filled(tool, {key: ["bash", "-lc", command] if is_list else command}), call_id)


def _edit(spec: Json, tools: Sequence[Tool], cwd: str, call_id: str, said: Sequence[Json]) -> Call | None:
    tool = find(tools, *EDIT)
    if tool is None:
        return _patch(spec, tools, call_id)
    path, old, new = f"{cwd}/{spec['path']}", spec["old"], spec["new"]
    args: Json = {_pick(tool, PATH_KEYS): path}
    if "input" in tool.params and not set(PATH_KEYS) & set(tool.params):  # Oh My Pi's edits name a line
        args = {"input": f"[{spec['path']}#{_tag(spec['path'], said)}]\nPUT {spec['line']}.={spec['line']}:\n+{new}\n"}
    elif "edits" in tool.params and not set(OLD_KEYS) & set(tool.params):
        item = (tool.params["edits"].get("items") or {}).get("properties") or {}
        args["edits"] = [{_of(item, OLD_KEYS, "oldText"): old, _of(item, NEW_KEYS, "newText"): new}]
    else:
        args |= {_pick(tool, OLD_KEYS): old, _pick(tool, NEW_KEYS): new}
    if "command" in tool.params:
        args["command"] = "str_replace"
    return Call(tool, _filled(tool, args), call_id)


def _patch(spec: Json, tools: Sequence[Tool], call_id: str) -> Call | None:
    tool = find(tools, "apply_patch", "patch")
    if tool is None:
        return None
    body = f"*** Update File: {spec['path']}\n@@\n-{spec['old']}\n+{spec['new']}\n"
    patch = f"*** Begin Patch\n{body}*** End Patch\n"
    key = _pick(tool, ("input", "patchText", "patch"))
    return Call(tool, patch if tool.kind == "custom" else {key: patch}, call_id)


def _tag(path: str, said: Sequence[Json]) -> str:
    """Return the newest tag that the client showed for a file, as in `[cart.py#A069]`."""
    tags = [tag for each in said for tag in re.findall(re.escape(path) + r"#([0-9A-F]{4})\b", each["text"])]
    return tags[-1] if tags else "0000"


def _pick(tool: Tool, keys: Sequence[str]) -> str:
    return _of(tool.params, keys, keys[0])


def _of(params: Json, keys: Sequence[str], usual: str) -> str:
    return next((key for key in keys if key in params), usual)


def _filled(tool: Tool, args: Json) -> Json:
    for key in tool.schema.get("required") or []:
        spec = tool.params.get(key) or {}
        kind = spec.get("type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        usual = spec["enum"][0] if spec.get("enum") else _HARMLESS.get(str(kind).lower(), "scripted step")
        args.setdefault(key, usual)
    return args
