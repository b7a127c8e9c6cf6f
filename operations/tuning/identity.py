"""What makes two runs comparable: what a configuration names, the version of ATK's own runner, what a Case asks."""

from __future__ import annotations

from storage.frames import canonical, digest
from storage.schema.datasets import Case
from storage.schema.projects import Project

RUNNER_VERSION = "supervisor-1"
"""Changes when the runner changes in a way that could change an outcome."""


def declared_inputs(project: Project) -> list[str]:
    """Returns the files and folders that the configuration names: what a run depends on, ignored by Git or not."""
    named = {c.source_path for c in project.components if c.source_path}
    arguments = {a for a in project.command[1:] if _is_inside(a)}
    return sorted(named | arguments)


def _is_inside(argument: str) -> bool:
    """Whether an argument could be a path within the project; whether it is one shows when it is fingerprinted."""
    parts = argument.split("/")
    plain = argument and not argument.startswith(("-", "/")) and not set(argument) & set("{}*?[]\\\0\n")
    return bool(plain) and ".." not in parts and "//" not in argument and not {".git", ".atk"} & set(parts)


def runner_digest(project: Project) -> str:
    """Returns the digest of how attempts are started and ended."""
    return digest(canonical([RUNNER_VERSION, list(project.command), sorted(project.infrastructure_exit_codes)]))


def input_digest(case: Case) -> str:
    """Returns the digest of what a Case asks of the agent, whatever it is called and however its text is spaced."""
    asked = " ".join(case.input.split()) if isinstance(case.input, str) else case.input
    return digest(canonical([asked, sorted(file.sha256 for file in case.attachments)]))
