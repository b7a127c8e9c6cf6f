"""Proposes from the files what candidates may change, what is protected, what the agent needs and acts on."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from atk_mcp.starting.entries import Entry, skill_folders
from atk_mcp.starting.finding import File, Found
from operations.execution.adapters.variables import EnvFileUnusable, read_env_file
from operations.execution.plan import DEFAULT_VARIABLES

MOST = 12
"""How many paths or names are proposed for one field."""

_PROMPT = re.compile(r"prompt|instruction|persona|few.?shot|playbook|guideline|(^|/)system[._-]?(message|msg)?\.")
_PROSE = {".md", ".txt", ".prompt", ".jinja", ".jinja2", ".j2", ".tmpl", ".mustache", ".hbs", ".yaml", ".yml", ".json",
          ".toml", ".xml"}  # fmt: skip
_PROMPT_FOLDERS = {"prompts", "prompt", "instructions", "templates"}
_KNOWLEDGE = re.compile(
    r"rule|polic|tone|style|knowledge|faq|glossar|lexicon|keyword|taxonom|categor|example|intent|routing"
)
"""In the name of a file that says what an agent knows, where its code names the file too."""
_TEST = re.compile(r"(^|/)(tests?|t|specs?|__tests__|evals?|fixtures)/|(^|/)test_[^/]*$|[._]test\.\w+$|\.spec\.\w+$")
_DEPENDENCIES = frozenset(
    {
        "pyproject.toml", "requirements.txt", "requirements-dev.txt", "setup.py", "setup.cfg", "uv.lock", "poetry.lock",
        "Pipfile", "Pipfile.lock", "environment.yml", "package.json", "package-lock.json", "pnpm-lock.yaml",
        "yarn.lock", "bun.lockb", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock", "Gemfile", "Gemfile.lock",
        "composer.json", "composer.lock", "Dockerfile", "docker-compose.yml", "compose.yaml", "Makefile",
    }
)  # fmt: skip
_CASES = re.compile(r"(^|/)(cases|golden|gold|expected|labels?|dataset|testset)[^/]*\.(csv|jsonl?|parquet)$")
_CODE = {".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".rb", ".go", ".rs", ".php", ".pl", ".lua"}

_VARIABLE = re.compile(
    r"environ(?:\.get)?\s?[\[(]\s?['\"]([A-Z][A-Z0-9_]{2,60})['\"]|getenv\(\s?['\"]([A-Z][A-Z0-9_]{2,60})['\"]|"
    r"process\.env\.([A-Z][A-Z0-9_]{2,60})|ENV\[['\"]([A-Z][A-Z0-9_]{2,60})['\"]|\$\{?([A-Z][A-Z0-9_]{2,50}_(?:KEY|TOKEN|URL))\b"
)
_ACTS = {
    r"\bsmtplib\b|\bnodemailer\b|\bsendgrid\b|\bsendmail\b|\bmailgun\b": "mail",
    r"\bpsycopg|\bpymysql\b|\bpymongo\b|\bmongoose\b|\bsqlalchemy\b|\bredis\b|require\(['\"]pg['\"]": "database",
    r"\bboto3\b|aws-sdk|\bgoogle\.cloud\b|\bazure\.": "cloud service",
    r"\bstripe\b|\bbraintree\b|\bpaypal": "payment",
    r"\bslack_sdk\b|@slack/|\btwilio\b|\bdiscord\b|\btelegram\b": "messages",
    r"\bkubernetes\b|\bparamiko\b|\bfabric\b|\bssh\s": "other machines",
    r"\bjira\b|\bzendesk\b|\bsalesforce\b|\bhubspot\b|\bPyGithub\b|@octokit/": "ticket or customer system",
    r"\brequests\.(post|put|patch|delete)\b|\baxios\.(post|put|patch|delete)\b|method:\s?['\"](POST|PUT|PATCH|DELETE)|"
    r"\bcurl\b[^\n]{0,200}\s(-X|--request|-d|--data)": "HTTP service",
}


def allowed(found: Found, entry: Entry | None) -> list[str]:
    """Returns what candidates may change: prompts, Skills and rules that the code names, else the file it begins at."""
    folders = [folder for folder in skill_folders(found) if folder]
    skills = folders if "SKILL.md" not in found.by_path else ["SKILL.md", *folders]
    prompts = [file for file in found.files if _is_prompt(file) or _is_read(found, file)]
    shared = sorted({file.folder for file in prompts if file.folder.rpartition("/")[2] in _PROMPT_FOLDERS})
    paths = [*skills, *shared, *(file.path for file in prompts if not _covered(file.path, [*skills, *shared]))]
    if not paths and entry is not None and entry.source is not None:
        paths = [entry.source]
    return paths[:MOST]


def protected(found: Found, entry: Entry | None, may_change: list[str]) -> list[str]:
    """Returns what no candidate may change: the start, tests, answers, dependencies, CI, secrets."""
    begins = [entry.source] if entry is not None and entry.source is not None and entry.skill is None else []
    tests = [_top_test(file.path) for file in found.files if _TEST.search(file.path)]
    others = [
        file.path
        for file in found.files
        if (file.depth == 0 and (file.name in _DEPENDENCIES or is_env_file(file))) or _CASES.search(file.path)
    ]
    ci = [".github"] if any(file.path.startswith(".github/") for file in found.files) else []
    ci += [file.path for file in found.files if file.path == ".gitlab-ci.yml"]
    proposed = dict.fromkeys([*begins, *tests, *others, *ci])
    kept = [path for path in proposed if path not in may_change and not _covered(path, may_change)]
    return [path for path in kept if not _covered(path, [x for x in kept if x != path])][:MOST]


def is_env_file(file: File) -> bool:
    """Whether a file holds variables, perhaps secret ones, as opposed to an example of them."""
    example = re.search(r"example|sample|template|dist$", file.name) is not None
    return (file.name == ".env" or file.name.startswith(".env.")) and not example


def env_file(found: Found) -> tuple[str, list[str]] | None:
    """Returns the file of variables at the top and the names in it, or None where there is none that can be used."""
    if ".env" not in found.by_path:
        return None
    try:
        names = sorted(read_env_file(os.path.join(found.root, ".env"), ".env"))
    except EnvFileUnusable:
        return None  # another tool's format: the agent may read it by itself
    return (".env", names) if names else None


def variables(found: Found, known: set[str], environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Returns the variables that the code reads and this shell has, and those that it reads and nobody has set.

    Args:
        found: The files.
        known: Names that the agent is given anyway.
        environment: This process's variables.
    """
    read: dict[str, None] = {}
    for file in _code(found):
        for groups in _VARIABLE.findall(found.text(file.path)):
            read.update(dict.fromkeys(name for name in groups if name))
    names = [name for name in read if name not in known and name not in DEFAULT_VARIABLES][: 2 * MOST]
    return [x for x in names if x in environment][:MOST], [x for x in names if x not in environment][:MOST]


def effects(found: Found) -> dict[str, str]:
    """Returns what the code seems to act on outside the folder, each with the file that says so."""
    seen: dict[str, str] = {}
    for file in _code(found):
        for sign, name in _ACTS.items():
            if name not in seen and re.search(sign, found.text(file.path)):
                seen[name] = file.path
    return seen


def components(found: Found, may_change: list[str], entry: Entry | None) -> list[dict[str, Any]]:
    """Returns the parts of the target that are files: what may change, and the file that the agent begins with."""
    begins = entry.source if entry is not None else None
    parts = [(path, "variable") for path in may_change]
    if begins is not None and not _covered(begins, may_change):
        parts.append((begins, "fixed"))
    named: dict[str, dict[str, Any]] = {}
    for path, role in parts:
        if path not in found.by_path and not any(file.path.startswith(f"{path}/") for file in found.files):
            continue
        name = re.sub(r"[^a-z0-9]+", "-", os.path.splitext(path)[0].lower()).strip("-")[:60] or f"part-{len(named) + 1}"
        name = name if name not in named else f"{name[:56]}-{len(named) + 1}"
        named[name] = {
            "component_id": name, "role": _role(found, path), "change_role": role, "source_path": path,
        }  # fmt: skip
    return list(named.values())


def _role(found: Found, path: str) -> str:
    file = found.by_path.get(path)
    if f"{path}/SKILL.md" in found.by_path or (file is not None and file.name == "SKILL.md"):
        return "skill"
    return "agent_code" if file is not None and file.suffix in _CODE else "prompt"


def _is_prompt(file: File) -> bool:
    if file.suffix not in _PROSE or _TEST.search(file.path) or file.name in _DEPENDENCIES or _CASES.search(file.path):
        return False
    inside = file.folder.rpartition("/")[2] in _PROMPT_FOLDERS - {"templates"}
    return inside or _PROMPT.search(file.path.lower()) is not None or file.name in {"AGENTS.md", "CLAUDE.md"}


def _is_read(found: Found, file: File) -> bool:
    """Whether a file at the agent's own level says by its name what an agent knows, and the code names it."""
    usual = file.suffix in _PROSE and file.name not in _DEPENDENCIES
    if not usual or _TEST.search(file.path) or _CASES.search(file.path) or not _KNOWLEDGE.search(file.name.lower()):
        return False
    return any(file.name in found.text(code.path) for code in _code(found))


def _top_test(path: str) -> str:
    """Returns the folder of tests that a path lies in, or the path where it is a test beside the code."""
    parts = path.split("/")
    for end, part in enumerate(parts[:-1], 1):
        if _TEST.search(f"{part}/"):
            return "/".join(parts[:end])
    return path


def _covered(path: str, others: list[str]) -> bool:
    return any(path == other or path.startswith(f"{other}/") for other in others)


def _code(found: Found) -> list[File]:
    return [file for file in found.files if file.suffix in _CODE and not _TEST.search(file.path)]
