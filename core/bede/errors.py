"""Everything that can go wrong on purpose, as one small tree.

    BedeError
    ├── UsageError            2   a flag or value is wrong
    ├── Rejected              3   an arbitration rule refused the memory; nothing was written
    ├── RepositoryNotFound   10   no project here or above
    ├── Busy                 11   another writer held the store past the deadline
    ├── Conflict             12   the ref moved, the lease is held, the merge has conflicts
    ├── NotFound             13   no such ref, event or memory; ambiguous prefix
    ├── Corrupt              20   a hash does not match, or the file is damaged
    ├── TooNew               21   written by a newer version, or opened for reading only
    ├── BadSource            30   a transcript or import cannot be read
    ├── Unavailable          40   an optional part is missing, or the disk refuses
    └── Internal             70   a bug

Each error can write itself as the JSON object that every face shows, so no face has an opinion about errors.
"""

from __future__ import annotations

# An agent's hook waits for this module: `typing` would cost it more than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class BedeError(Exception):
    """An error with a stable code, an exit status and, where one exists, a next step."""

    code: ClassVar[str] = "internal"
    exit_status: int = 70
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", reason: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.reason = reason
        self.details = details

    def to_json(self) -> dict[str, Any]:
        """Return the error object (`error/1`), the same on stderr and over MCP; no secret that was typed is in it."""
        from bede.redact import redact_value

        body: dict[str, Any] = {"schema": "error/1", "code": self.code, "message": self.message}
        if self.reason:
            body["reason"] = self.reason
        body["hint"] = self.hint
        body["retryable"] = self.retryable
        body["exit_status"] = self.exit_status
        if self.details:
            body["details"] = self.details
        return redact_value(body)


class UsageError(BedeError):
    """A flag or a value is wrong."""

    code = "usage"
    exit_status = 2


class Rejected(BedeError):
    """An arbitration rule refused the memory; `reason` says which. Nothing was written."""

    code = "rejected"
    exit_status = 3


class RepositoryNotFound(BedeError):
    """There is no project here or above, or its database is gone."""

    code = "repository_not_found"
    exit_status = 10


class Busy(BedeError):
    """Another writer held the store past the deadline; trying again may work."""

    code = "busy"
    exit_status = 11
    retryable = True


class Conflict(BedeError):
    """The world is not as the caller expected: a moved ref, other agents' work, a merge conflict."""

    code = "conflict"
    exit_status = 12


class Held(Conflict):
    """Somebody else has it for a time; trying again later may work."""

    retryable = True


class NotFound(BedeError):
    """No such ref, event or memory; or a prefix that fits several."""

    code = "not_found"
    exit_status = 13


class Corrupt(BedeError):
    """Stored bytes are not what was written."""

    code = "corrupt"
    exit_status = 20


class TooNew(BedeError):
    """The file was written by a newer version, or may only be read by this one."""

    code = "too_new"
    exit_status = 21


class BadSource(BedeError):
    """Something to be read in could not be; what could be read was kept and counted."""

    code = "bad_source"
    exit_status = 30


class Unavailable(BedeError):
    """Something outside is missing or refuses: an optional part, the disk, a permission."""

    code = "unavailable"
    exit_status = 40


class Internal(BedeError):
    """A bug in Bede itself."""


def cause(error: BaseException) -> str:
    """Return what an error says; of one of the system neither its number nor the path, which the message names."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


#: Every error a caller can meet, in the order of exit statuses: the source of the table in the manual.
ERRORS: tuple[type[BedeError], ...] = (
    UsageError,
    Rejected,
    RepositoryNotFound,
    Busy,
    Conflict,
    NotFound,
    Corrupt,
    TooNew,
    BadSource,
    Unavailable,
    Internal,
)
