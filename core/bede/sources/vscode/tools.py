"""The tools of Copilot and of Cursor, by their exact names: what each of them does, and upon what.

Both have had several sets of tools that do the same under other names. A tool that is not in a table is not guessed at:
it is `other`, and its target is its argument, where it has exactly one that is a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bede.sources.patch import edits as patched
from bede.sources.port import Edit, Sort
from bede.sources.vscode import decoded, first, mapping, sequence, text

Table = Mapping[str, tuple[Sort, tuple[str, ...]]]
"""Tool → what it does, and the arguments of which the first that is there tells upon what."""

_PATH = (
    *("path", "filePath", "file_path", "target_file", "targetFile", "relativeWorkspacePath", "target_notebook"),
    *("fileName", "target_directory", "directoryPath", "dirPath", "uri"),
)
_QUERY = (
    *("pattern", "regex", "query", "search_term", "searchTerm", "glob_pattern", "globPattern", "path"),
    *("target_directory",),
)
_TASK = ("description", "prompt", "task", "name")
_SAID = ("intent", "summary", "question", "query", "skill", "fact")
_OLD = ("old_str", "oldString", "old_string", "oldCode", "old_content")
_NEW = (
    *(
        "new_str",
        "newString",
        "new_string",
        "file_text",
        "contents",
        "content",
        "code",
        "newCode",
        "code_edit",
        "codeEdit",
    ),
    *("new_content", "cellContents", "newText"),
)
_PATCH = ("input", "patch", "patchText", "patch_text")


def _rows(sort: Sort, names: tuple[str, ...], tools: str) -> dict[str, tuple[Sort, tuple[str, ...]]]:
    return dict.fromkeys(tools.split(), (sort, names))


COPILOT: Table = {
    # the command line
    **_rows("shell", ("command", "input"), "bash powershell shell local_shell write_bash write_powershell"),
    **_rows("other", ("shellId", "sessionId"), "read_bash stop_bash read_powershell stop_powershell"),
    **_rows("read", _PATH, "view show_file read_file get_errors copilot_readFile list_dir copilot_listDirectory"),
    **_rows("read", _PATH, "copilot_getErrors copilot_getNotebookSummary copilot_viewImage view_image"),
    **_rows("search", _QUERY, "glob grep rg grep_search file_search semantic_search list_code_usages"),
    **_rows("search", _QUERY, "copilot_findTextInFiles copilot_findFiles copilot_searchCodebase"),
    **_rows("search", ("symbolName", "query"), "copilot_listCodeUsages test_search copilot_findTestFiles"),
    **_rows("web", ("url", "urls", "query", "repo"), "web_fetch web_search fetch_webpage copilot_fetchWebPage"),
    **_rows("web", ("url", "urls", "query", "repo"), "vscode_fetchWebPage_internal github_repo copilot_githubRepo"),
    **_rows("web", ("url", "urls"), "open_simple_browser copilot_openSimpleBrowser"),
    **_rows("create", _PATH, "create create_file copilot_createFile create_new_jupyter_notebook"),
    **_rows("other", _PATH, "create_directory copilot_createDirectory"),
    **_rows("edit", _PATH, "edit str_replace str_replace_editor apply_patch copilot_applyPatch insert_edit_into_file"),
    **_rows("edit", _PATH, "replace_string_in_file multi_replace_string_in_file edit_notebook_file delete_file"),
    **_rows("edit", _PATH, "copilot_replaceString copilot_multiReplaceString copilot_insertEdit copilot_editNotebook"),
    **_rows("edit", _PATH, "vscode_editFile_internal vscode_editFile editFiles copilot_editFile"),
    **_rows("shell", ("command", "task", "label"), "run_in_terminal copilot_runInTerminal runInTerminal run_task"),
    **_rows("shell", ("command", "task", "label"), "create_and_run_task copilot_runTests run_tests runTests"),
    **_rows("task", _TASK, "task runSubagent run_subagent copilot_runSubagent"),
    **_rows("other", _SAID, "report_intent task_complete ask_user sql skill store_memory"),
    **_rows("other", (), "update_todo manage_todo_list think list_bash list_powershell"),
}

#: The tools that a chat of VS Code shows, and the names by which the model calls them.
SHOWN = {
    "copilot_readFile": "read_file",
    "copilot_listDirectory": "list_dir",
    "copilot_findTextInFiles": "grep_search",
    "copilot_findFiles": "file_search",
    "copilot_searchCodebase": "semantic_search",
    "copilot_listCodeUsages": "list_code_usages",
    "copilot_fetchWebPage": "fetch_webpage",
    "copilot_githubRepo": "github_repo",
    "copilot_createFile": "create_file",
    "copilot_createDirectory": "create_directory",
    "copilot_insertEdit": "insert_edit_into_file",
    "copilot_replaceString": "replace_string_in_file",
    "copilot_multiReplaceString": "multi_replace_string_in_file",
    "copilot_applyPatch": "apply_patch",
    "copilot_editNotebook": "edit_notebook_file",
    "copilot_getErrors": "get_errors",
    "copilot_runInTerminal": "run_in_terminal",
    "copilot_runSubagent": "runSubagent",
}

CURSOR: Table = {
    **_rows("shell", ("command", "cmd"), "Shell run_terminal_cmd run_terminal_command run_terminal_command_v2 Bash"),
    **_rows("read", _PATH, "Read read_file read_file_v2 ReadFile LS list_dir list_dir_v2 read_lints ReadLints"),
    **_rows("search", _QUERY, "Grep grep grep_search ripgrep ripgrep_raw_search rg codebase_search semantic_search"),
    **_rows("search", _QUERY, "semantic_search_full SemanticSearch file_search Glob glob_file_search"),
    **_rows("web", ("url", "search_term", "searchTerm", "query"), "WebSearch WebFetch web_search web_fetch fetch"),
    **_rows("create", _PATH, "Write write create_file"),
    **_rows("edit", _PATH, "edit_file edit_file_v2 search_replace reapply StrReplace MultiEdit ApplyPatch apply_patch"),
    **_rows("edit", _PATH, "EditNotebook edit_notebook Delete delete_file"),
    **_rows("task", _TASK, "Task Subagent task task_v2"),
    **_rows("mcp", ("toolName", "tool", "name", "uri"), "CallMcpTool call_mcp_tool FetchMcpResource"),
    **_rows("other", (), "TodoWrite todo_write"),
    **_rows("other", ("question", "plan", "name"), "AskQuestion ask_question create_plan CreatePlan SwitchMode"),
}


class Deed(NamedTuple):
    """What a call does."""

    target: str
    sort: Sort
    edits: tuple[Edit, ...]


def deed(table: Table, tool: str, arguments: Any, *, of_server: bool = False) -> Deed:
    """Return what a call of a tool does; `arguments` may be an object, its JSON, or one text, as of a patch."""
    given = decoded(arguments)
    values = {"input": given} if isinstance(given, str) and given else mapping(given)
    known = table.get(tool)
    if known is None:
        return Deed(_only(values), "mcp" if of_server else "other", ())
    sort, names = known
    edits = _edits(tool, sort, values) if sort in ("edit", "create") else ()
    return Deed(first(values, names) or (edits[0].path if edits else ""), sort, edits)


def _only(values: Mapping[str, Any]) -> str:
    """Return the one argument that is a text, if there is just one."""
    found = [value for value in values.values() if isinstance(value, str) and value]
    return found[0] if len(found) == 1 else ""


def _edits(tool: str, sort: Sort, values: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the changes that a call asks for."""
    if tool in ("apply_patch", "copilot_applyPatch", "ApplyPatch"):
        return tuple(patched(first(values, _PATCH)))
    if tool == "str_replace_editor" and values.get("command") == "view":
        return ()
    many = sequence(values.get("replacements")) or sequence(values.get("edits"))
    if many:
        found = [_edit(sort, {**values, **mapping(each)}) for each in many]
    elif files := sequence(values.get("files")):
        found = [_edit(sort, {**values, "path": text(each)}) for each in files]
    else:
        found = [_edit("create" if values.get("command") == "create" else sort, values)]
    if tool in ("Delete", "delete_file"):
        found = [Edit(edit.path, "delete") for edit in found]
    return tuple(edit for edit in found if edit.path)


def _edit(sort: Sort, values: Mapping[str, Any]) -> Edit:
    operation: Literal["create", "update"] = "create" if sort == "create" else "update"
    return Edit(first(values, _PATH), operation, first(values, _OLD), first(values, _NEW))
