"""Where a hook's failures are written down: one line of JSON each, in a file of the user's that stays small.

An agent must never see them, and a person who looks for the reason finds them here ('bede doctor' names the file).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bede.config import user_folder

#: The file, and at how many bytes it begins anew (the one before is kept beside it).
NAME, LARGEST = "hooks.log", 256 * 1024


def place(environment: Mapping[str, str]) -> Path:
    """Return the file."""
    return user_folder(environment, "data") / NAME


def note(agent: str, event: str, error: BaseException, environment: Mapping[str, str]) -> None:
    """Add a line; a few hundred bytes of it at most, since it may quote what came from outside.

    Raises:
        OSError: the file cannot be written.
    """
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    said = {"agent": agent, "event": event, "message": str(error)[:2000]}
    if not isinstance(error, TimeoutError):  # That one is ours, and has no time for more.
        from bede.redact import redact

        said = {name: redact(text) for name, text in said.items()}
    elif not (agent + event).translate(dict.fromkeys(map(ord, "-._"))).isalpha():
        said |= {"agent": "", "event": ""}
    line = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "agent": said["agent"][:40],
        "event": said["event"][:40],
        "error": type(error).__name__,
        "message": said["message"][:300],
        "where": f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else "",
    }
    path = place(environment)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):  # It is not there yet, or another process was faster.
        if path.stat().st_size > LARGEST:
            path.replace(path.with_suffix(".old"))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, (json.dumps(line) + "\n").encode())
    finally:
        os.close(handle)
