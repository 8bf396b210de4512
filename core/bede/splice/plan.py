"""From targets to changes, and from changes to files.

A plan is made of bytes that were read, and nothing is written before all of it is known. Every file is then replaced
in one step, with its mode, through any link; a file that somebody has changed since it was read is not touched, and
what was written already is put back. Folders that were made are told, since no file can tell of them.
"""

from __future__ import annotations

import difflib
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bede.errors import BadSource, BedeError, Busy, Unavailable, cause
from bede.splice import Section, Target, Whole, pieces, text, toml

MOST = 10_000_000
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Change:
    """One file and its bytes before and after; None stands for no file.

    `file` is how it was named, `real` where it lies. `mode` is for a file that is new, before the umask; `exact` is
    what it must be, where an old one's would not do.
    """

    file: Path
    real: Path
    before: bytes | None
    after: bytes | None
    folders: bool = True
    mode: int = 0o666
    exact: int = 0

    @property
    def outcome(self) -> str:
        """What becomes of the file, in one word."""
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "deleted" if self.after is None else "changed"


def plan(targets: Iterable[Target], *, install: bool) -> list[Change]:
    """Return what has to be done so that all targets are as wanted, or gone: one change a file, unchanged ones too.

    Raises:
        BadSource: a file cannot be read as its format; the hint says what to put in by hand.
        Conflict: a file or block that should be ours is somebody else's by now.
        Unavailable: a file may not be read.
    """
    changes: dict[Path, Change] = {}
    for target in targets:
        real = resolve(target.file)
        known = changes.get(real) or _seen(target, real)
        try:
            after = edit(known.after, target, install=install)
        except BedeError as error:
            raise _told(error, target, install=install) from error
        changes[real] = replace(known, after=after)
    return list(changes.values())


def _seen(target: Target, real: Path) -> Change:
    data = read(real)
    return Change(target.file, real, data, data, target.folders, 0o777 if target.executable else 0o666)


def resolve(file: Path) -> Path:
    """Return where a file really lies, or would.

    Raises:
        Unavailable: its links lead in a circle, or may not be followed.
    """
    try:
        return file.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise Unavailable(f"cannot follow {file}: {cause(error)}", hint="mend the link") from error


def read(real: Path) -> bytes | None:
    """Return a file's bytes; None where there is none.

    Raises:
        BadSource: it is no plain file, or far too large for settings.
        Unavailable: it may not be read.
    """
    try:
        about = real.stat()
        if not stat.S_ISREG(about.st_mode):
            raise BadSource(f"{real} is not a file")
        if about.st_size > MOST:
            raise BadSource(f"{real} is larger than {MOST // 1_000_000} MB")
        return real.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable(f"cannot read {real}: {cause(error)}", hint="check the permissions") from error


def edit(data: bytes | None, target: Target, *, install: bool) -> bytes | None:
    """Return a file's bytes with a target's pieces, or without.

    Raises:
        BadSource, Conflict: see `plan`.
    """
    if data is None and not install:
        return None
    bom = _BOM if data and data.startswith(_BOM) else b""
    was = None if data is None else _decoded(data[len(bom) :], target)
    try:
        now = _edited(was, target, install)
    except RecursionError as error:
        raise BadSource("it is nested too deeply") from error
    if now is None:
        return None
    try:
        return bom + now.encode("utf-8", "surrogateescape" if target.format == "text" else "strict")
    except UnicodeEncodeError as error:
        raise BadSource("a path in it is not UTF-8", hint="install bede at a path that is") from error


def _edited(was: str | None, target: Target, install: bool) -> str | None:
    lax = target.format == "jsonc"
    if isinstance(target.pieces[0], (Whole, Section)):
        return text.install(was, target.pieces) if install else text.remove(was or "", target.pieces)
    if target.format == "toml":
        return toml.install(was, target.pieces) if install else toml.remove(was or "", target.pieces)
    return pieces.install(was, target.pieces, lax) if install else pieces.remove(was or "", target.pieces, lax)


def _decoded(data: bytes, target: Target) -> str:
    if data.startswith(_WIDE_BOMS):
        raise BadSource("it is UTF-16", hint="save it as UTF-8")
    try:
        return data.decode("utf-8", "surrogateescape" if target.format == "text" else "strict")
    except UnicodeDecodeError as error:
        raise BadSource(f"it is not UTF-8: byte {error.start} is {data[error.start]:#x}", hint="save it so") from error


def _told(error: BedeError, target: Target, *, install: bool) -> BedeError:
    """Return an error that names the file, and shows what a person would put into it."""
    hint = error.hint
    if install and isinstance(error, BadSource):
        with suppress(BedeError):
            snippet = (edit(None, target, install=True) or b"").decode(errors="replace")
            hint = f"{hint}{'; or ' if hint else ''}mend it and try again, or put this into it by hand:\n{snippet}"
    elif not hint:
        hint = "mend it and try again, or take bede's entry out by hand"
    return type(error)(f"{target.file}: {error.message}", hint=hint)


def diff(change: Change) -> str:
    """Return a change as a unified diff; '' where nothing changes. Exact, so control characters stand raw."""
    if change.before == change.after:
        return ""
    old, new = (str(change.file) if side is not None else os.devnull for side in (change.before, change.after))
    body = difflib.unified_diff(_lines(change.before), _lines(change.after), old, new)
    return "".join(map(_whole, body)) or f"--- {old}\n+++ {new}\n"  # An empty file comes or goes.


def _lines(data: bytes | None) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", (data or b"").decode("utf-8", "backslashreplace"))


def _whole(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


# Writing


def apply(changes: Sequence[Change]) -> list[Path]:
    """Make all changes or none, and return the folders that had to be made, the outermost first.

    Raises:
        Busy: a file is no longer as it was read.
        Unavailable: a file cannot be written; a folder is missing that may not be made.
    """
    wanted = [change for change in changes if change.before != change.after]
    made: list[Path] = []
    drafts: list[Path | None] = []
    done: list[Change] = []
    try:
        for change in wanted:
            made += _folders(change)
            drafts.append(_draft(change))
        for change, draft in zip(wanted, drafts, strict=True):
            _swap(change, draft)
            done.append(change)
    except (OSError, BedeError) as error:
        _undo(done, drafts, made)
        if isinstance(error, BedeError):
            raise
        raise Unavailable(f"cannot write {error.filename}: {error.strerror}", hint="check folder and disk") from error
    return made


def _folders(change: Change) -> Iterator[Path]:
    missing = []
    for folder in change.real.parents:
        if folder.exists():
            break
        missing.append(folder)
    if missing and not change.folders:
        raise Unavailable(f"there is no folder {change.real.parent}", hint="name the agent to have it made")
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir()
            yield folder


def _draft(change: Change) -> Path | None:
    """Write the bytes beside the file, with its mode and owner; None where the file is to go."""
    if change.before is not None and not os.access(change.real, os.W_OK):
        raise Unavailable(f"{change.real} is read-only", hint="make it writable, or edit it by hand")
    if change.after is None:
        return None
    draft = change.real.with_name(f".{change.real.name[:100]}.{secrets.token_hex(6)}.bede")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), change.mode)
    try:
        with open(handle, "wb") as file:
            file.write(change.after)
            file.flush()
            _dress(draft, change)
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def _dress(draft: Path, change: Change) -> None:
    """Give a draft the owner, where that is allowed, and the mode of the file it will replace."""
    about = change.real.stat() if change.before is not None else None
    if about and hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(draft, about.st_uid, about.st_gid)
    mode = change.exact or (stat.S_IMODE(about.st_mode) if about else 0)
    if mode:
        draft.chmod(mode)


def _swap(change: Change, draft: Path | None) -> None:
    if read(change.real) != change.before:
        raise Busy(f"{change.file} was changed in the meantime", hint="try again")
    if draft is None:
        change.real.unlink()
    else:
        draft.replace(change.real)
    _settle(change.real.parent)


def _settle(folder: Path) -> None:
    """Have the disk keep the folder's new entries, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _undo(done: list[Change], drafts: list[Path | None], made: list[Path]) -> None:
    """Put back what was changed, as far as that goes; what went wrong first is what will be told."""
    for draft in filter(None, drafts):
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    for change in reversed(done):
        back = replace(change, before=change.after, after=change.before)
        with suppress(OSError, BedeError):
            _swap(back, _draft(back))
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()
