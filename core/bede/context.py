"""What an operation may touch: the repository, the settings, the clock, the environment, and nothing else.

A face makes one Context for a call and closes it afterwards. Everything ambient comes in here, so that a test can
replace it and a server can bind it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from bede.config import Config
from bede.errors import Corrupt, RepositoryNotFound, UsageError
from bede.identity import check_agent
from bede.places import Project, find_project, registered
from bede.projections import PROJECTIONS
from bede.records import Place
from bede.repository import Reading, Repository, Writing
from bede.repository.refs import is_branch

if TYPE_CHECKING:
    from bede.leases.clock import Now
    from bede.repository.connection import Connection

#: Variables that tell the session a call is made in, the surest first, and whose session it then is.
_SESSIONS = (
    ("BEDE_SESSION_ID", ""),
    ("CLAUDE_CODE_SESSION_ID", "claude-code"),
    ("COPILOT_AGENT_SESSION_ID", "copilot"),
    ("BEDE_RUN_ID", ""),
)
#: Most resources that an operation notes of the lease it was done under.
_NOTED = 20


class Context:
    """The window of one call on the world.

    `directory` is where the call happens (`-C`), `project` a registered project's name or UUID, `branch` an override of
    the worktree's branch, `lease` the token that everything written must hold. `say` shows a line to a person while an
    operation runs, `progress` how far it is; `stdin` is None where there is none.
    """

    def __init__(
        self,
        *,
        directory: Path | None = None,
        project: str = "",
        branch: str = "",
        agent: str = "",
        lease: int = 0,
        patience: float = math.inf,
        read_only: bool = False,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        ticks: Callable[[], int] | None = None,
        stdin: BinaryIO | None = None,
        say: Callable[[str], None] = lambda _line: None,
        progress: Callable[[int, int, str], None] = lambda _done, _all, _name: None,
        repository: Repository | None = None,
    ) -> None:
        self.environment = os.environ if environment is None else environment
        self.directory = _absolute(directory or Path())
        self.clock = clock
        self.stdin = stdin
        self.say = say
        self.progress = progress
        #: For how many seconds the call may wait for others at most.
        self.patience = patience
        #: Whether the call asked for no answer but its exit status.
        self.is_silent = False
        self.read_only = read_only
        self._name = project
        self._branch = branch
        self._agent = agent
        self._lease = lease
        self._ticks = ticks
        self._project: Project | None = None
        self._config: Config | None = None
        self._repository = repository
        self._owned = repository is None

    @property
    def project(self) -> Project:
        """The project of this call: the named one, else the one here or above.

        Raises:
            RepositoryNotFound: there is none.
            NotFound, Conflict: the name is unknown, or fits several projects.
        """
        if self._project is None:
            if self._name:
                self._project = registered(self.environment, self._name)
            else:
                self._project = find_project(self.directory, self.environment)
        return self._project

    @property
    def is_named(self) -> bool:
        """Whether the call names its project, whatever the folder."""
        return bool(self._name)

    @property
    def around(self) -> Path:
        """The folder that the call is about: the named project's root, else where it happens."""
        return self.project.root if self.is_named else self.directory

    def check(self) -> None:
        """Make sure that a project which is named is known, also for what needs none: no name is dropped silently.

        Raises:
            RepositoryNotFound, NotFound, Conflict: see `project`.
        """
        if self.is_named:
            self.project  # noqa: B018

    @property
    def config(self) -> Config:
        """The settings of this call; the project's layer only where there is a project.

        Raises:
            RepositoryNotFound, NotFound, Conflict: one is named that is not there.
        """
        if self._config is None:
            from bede.errors import BedeError

            try:
                project: Path | None = self.project.folder / "config.toml"
            except BedeError:
                if self.is_named:
                    raise
                project = None
            self._config = Config(self.environment, project=project)
        return self._config

    @property
    def repository(self) -> Repository:
        """The project's repository, opened when it is first asked for."""
        if self._repository is None:
            repository = Repository.open(
                self.project.database,
                PROJECTIONS,
                read_only=self.read_only,
                wait=float(self.config["store.wait"]),
            )
            repository.connection.derived = _derived
            try:
                self._recognise(repository)
            except BaseException:
                repository.close()
                raise
            self._repository = repository
        # A server keeps one repository for many calls: each call sets its own.
        self._repository.guard = self._fence if self._lease else None
        return self._repository

    def _fence(self, connection: Connection, actor: str) -> dict[str, Any]:
        """Prove the lease that this call was given, and return what an operation notes of it.

        Raises:
            Conflict: it is lost, somebody else's, or never was.
        """
        from bede.leases.claims import check
        from bede.leases.holding import Holder

        held = check(connection, self._lease, Holder(actor, self.holder(actor)[1]), self.moment())
        return {"token": self._lease, "resources": [lease.resource for lease in held[:_NOTED]]}

    def history(self) -> Repository:
        """Return the repository, also where what is derived cannot be built: enough to look at the history itself."""
        try:
            return self.repository
        except Corrupt:
            wait = float(self.config["store.wait"])
            self._repository = Repository.open(self.project.database, read_only=True, wait=wait)
            return self._repository

    def _recognise(self, repository: Repository) -> None:
        """Make sure that a project which was named is the one that lies where it was registered."""
        if self.project.uuid:
            with repository.snapshot() as reading:
                found = reading.project()["uuid"]
            if found != self.project.uuid:
                raise RepositoryNotFound(
                    f"project {self._name!r} was registered at {self.project.root}, but another one lies there now",
                    hint="run 'bede init' there, and where the project is now",
                )

    def now(self) -> int:
        """Return the time in microseconds since 1970, UTC."""
        return self.clock()

    def moment(self) -> Now:
        """Return this moment on the clock that leases expire by, too."""
        from bede.leases import clock

        return clock.Now(self.now(), self._ticks() if self._ticks else clock.ticks(), clock.boot())

    def holder(self, agent: str = "", session: str = "") -> tuple[str, str]:
        """Return the agent and the session that a lease of this call is for; the session is '' where nothing tells it.

        An agent that tells the session of what it runs is that session's agent, unless one is named.

        Raises:
            UsageError: a name is malformed.
        """
        if session:
            return self.actor(agent), session
        for variable, whose in _SESSIONS:
            if found := self.environment.get(variable, ""):
                return self.actor(agent or whose), found
        return self.actor(agent), ""

    def actor(self, agent: str | None = None) -> str:
        """Return who acts: the one named, else the call's agent, else the setting, else the system's user.

        Raises:
            UsageError: the name is malformed, or looks like a secret.
        """
        name = agent or self._agent or self.config["agent.id"]
        if name:
            from bede.arbitration import public  # Only who writes has to have the rules about secrets.

            return public(check_agent(name))
        for variable in ("USER", "LOGNAME", "USERNAME"):
            cleaned = "".join(char if char.isalnum() else "-" for char in self.environment.get(variable, "")).strip("-")
            if cleaned:
                return check_agent(cleaned[:64])
        return _account() or "anonymous"

    def branch(self, reading: Reading) -> str:
        """Return the branch of this call: argument, `BEDE_BRANCH`, else the worktree's own.

        Raises:
            UsageError: it is about to be written to, and is no branch of thought.
        """
        name = self._branch or self.environment.get("BEDE_BRANCH", "") or reading.current(self.project.worktree)
        if isinstance(reading, Writing) and not is_branch(name):
            raise UsageError(f"{name!r} is a record of what was observed: it can be read, not written to")
        return name

    def look(self, reading: Reading, at: str | None = None) -> Place:
        """Return the event to look from: the one named, else the tip of the call's branch."""
        return reading.resolve(at) if at else reading.tip(self.branch(reading))

    def lines_in(self) -> str:
        """Return all of standard input as text.

        Raises:
            UsageError: there is none, or it is not UTF-8.
        """
        if self.stdin is None:
            raise UsageError("there is no standard input to read", hint="use --from FILE")
        try:
            return self.stdin.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is not UTF-8: {error}") from error

    def close(self) -> None:
        """Close the repository, if this call opened it."""
        if self._repository is not None and self._owned:
            self._repository.close()
            self._repository = None


def _derived(connection: Connection) -> Iterable[object]:
    from bede.projections.aside import differences  # Only who stumbles over a row pays for it.

    return differences(connection)


def _absolute(directory: Path) -> Path:
    try:
        return directory.absolute()
    except OSError as error:
        raise RepositoryNotFound("the working directory is gone", hint="change to one that exists") from error


def _account() -> str:
    """Return the name of the system's account where no variable tells it, as in a container."""
    try:
        import pwd

        return check_agent(pwd.getpwuid(os.getuid()).pw_name)
    except (ImportError, KeyError, UsageError):
        return ""
