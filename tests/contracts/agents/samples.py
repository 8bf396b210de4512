"""Payloads as agents send them: invented ones that follow the documents, and those of real runs.

Both lie beside the checkout, where it has a place for them; what needs them is skipped elsewhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[4] / "shared"
INVENTED, LIVE = SHARED / "hook-payloads", SHARED / "hook-payloads-live"
#: Folder of samples → agent, where they differ.
AGENTS = {"copilot-cli": "copilot", "vscode-local": "vscode"}
#: What stands beside the payloads of real runs.
BESIDE = ("index.json", "mcp-session.json")
#: What the agent's own hooks see around them.
SEEN = {"copilot": {"COPILOT_CLI": "1"}}

needs_samples = pytest.mark.skipif(
    not INVENTED.is_dir() or not LIVE.is_dir(), reason="the samples of payloads are not beside this checkout"
)


def files(base: Path, folder: str) -> list[Path]:
    """Return an agent's payloads."""
    return [file for file in sorted((base / folder).glob("*.json")) if file.name not in BESIDE]


def agent_of(file: Path) -> str:
    """Return the agent whose payload a file is."""
    return AGENTS.get(file.parent.name, file.parent.name)


def event_of(file: Path, payload: Any) -> str:
    """Return the event that the hook would be given on its command line."""
    if isinstance(payload, dict) and "hook" in payload:
        return str(payload["hook"])
    words = file.name.split(".")
    return words[1] if words[0] in ("pascal", "claude-file") else words[0]


def payload(file: Path) -> Any:
    """Return what a file holds."""
    return json.loads(file.read_text(encoding="utf-8"))
