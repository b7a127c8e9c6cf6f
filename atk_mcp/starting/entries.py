"""Guesses from the files how one attempt of the agent is started, and how it takes its input."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from atk_mcp.starting.finding import LANGUAGES, File, Found

Placement = Literal["argument", "stdin", "file"]
"""How the input reaches the agent: as an argument, on stdin, or as the path of a JSON file."""

STDIN_SCRIPT = 'input=$1; shift; printf "%s\\n" "$input" | "$@"'
"""For a shell: writes its first argument and a line feed to the stdin of the command that the others are."""

MOST = 5
"""How many guesses are worth a person's time."""

_FIRST = ("agent", "main", "app", "run", "cli", "bot", "index", "start", "assistant", "server", "__main__")
_FOLDERS = ("", "src", "bin", "app", "agent", "scripts")
_NEVER = re.compile(r"(^|/)(tests?|t|specs?|__tests__|docs?|examples?|migrations|fixtures|benchmarks)/|"
                    r"(^|/)(test_|conftest|setup\.|gulpfile|webpack|jest|vite|eslint|babel|rollup|tsup)|"
                    r"([._]test|\.spec|\.config|\.d)\.\w+$")  # fmt: skip
_SHELLS = {".sh": "sh", ".bash": "bash"}
_INTERPRETERS = {".rb": "ruby", ".pl": "perl", ".php": "php", ".lua": "lua", ".r": "Rscript", **_SHELLS}
_NODE = {".js", ".mjs", ".cjs"}
_SERVER = re.compile(r"\buvicorn\b|\bFastAPI\(|\bFlask\(|\.listen\(|createServer\(|http\.server\b")
_FLAG = re.compile(r"['\"](--(?:input|question|prompt|query|message|text|task|ticket))['\"]")
_POSITIONAL = re.compile(r"add_argument\(\s*['\"][^-'\"]")

_STDIN = {
    "Python": r"sys\.stdin|\binput\(|fileinput\b",
    "JavaScript": r"process\.stdin|readFileSync\(\s*0|['\"]/dev/stdin['\"]",
    "shell": r"\bread[ \t]+(-r[ \t]+)?\w|\$\([ \t]*cat[ \t]*\)|/dev/stdin|^[ \t]*cat[ \t]*\|",
    "Perl": r"<STDIN>|<>|\*STDIN|/dev/stdin",
    "Ruby": r"\$stdin|STDIN|ARGF|\bgets\b",
    "PHP": r"php://stdin|\bSTDIN\b",
    "Go": r"os\.Stdin",
    "Rust": r"stdin\(\)",
    "Lua": r"io\.(read|lines|stdin)\b",
    "R": r"['\"]stdin['\"]",
}
_ARGUMENT = {
    "Python": r"sys\.argv|argparse|\bclick\b|\btyper\b|\bfire\.Fire",
    "JavaScript": r"process\.argv|\bcommander\b|\byargs\b|parseArgs",
    "shell": r"\$[1@*]|\$\{[1@*]",
    "Perl": r"[@$]ARGV",
    "Ruby": r"\bARGV\b",
    "PHP": r"\$argv\b|getopt\(",
    "Go": r"os\.Args|\bflag\.",
    "Rust": r"env::args|\bclap\b",
    "Lua": r"\barg\[",
    "R": r"commandArgs",
}
_FILE = {
    "Python": r"open\(\s*sys\.argv|Path\(\s*sys\.argv",
    "JavaScript": r"readFile(Sync)?\(\s*process\.argv",
    "shell": r"<[ \t]*\"?\$\{?1|\b(cat|jq)\b[^|\n]{0,80}\"?\$\{?1",
    "Ruby": r"File\.(read|open)\(\s*ARGV",
    "PHP": r"file_get_contents\(\s*\$argv",
    "Go": r"(ReadFile|Open)\(\s*os\.Args",
}
_FAMILY = LANGUAGES | {"": "shell", ".ts": "JavaScript"}


@dataclass(frozen=True)
class Entry:
    """One way to start the agent."""

    argv: tuple[str, ...]
    """Without the input."""
    why: str
    source: str | None = None
    """The file that begins it, where there is one."""
    skill: str | None = None
    """The folder of a Skill that the Codex CLI runs; `argv` is empty then."""


@dataclass(frozen=True)
class Guess:
    """How the input seems to be taken, and what says so."""

    placement: Placement
    why: str
    flag: str | None = None
    """The option that comes before it."""


def entries(found: Found) -> list[Entry]:
    """Returns the likely ways to start the agent, best first, at most `MOST`; none where nothing looks like one."""
    ways = [*_declared(found), *_by_file(found), *_by_manifest(found)]
    unlike: dict[tuple[str, ...], Entry] = {}
    for way in ways:
        unlike.setdefault(way.argv, way)
    skills = [
        Entry((), "a Skill that the Codex CLI runs", source=f"{folder}/SKILL.md".lstrip("/"), skill=folder or ".")
        for folder in skill_folders(found)
    ]
    return [*unlike.values(), *skills][:MOST]


def skill_folders(found: Found) -> list[str]:
    """Returns the folders with a SKILL.md, the nearest first; the top is the empty text."""
    return [file.folder for file in found.files if file.name == "SKILL.md"]


def python(found: Found) -> str:
    """Returns the target's Python: that of its environment where it has one."""
    # An environment is known by a link in it, and `found` leaves links out.
    for folder in (".venv", "venv"):
        if os.path.exists(os.path.join(found.root, folder, "bin", "python")):
            return f"{folder}/bin/python"
    return "python3"


def is_server(found: Found, entry: Entry) -> bool:
    """Whether the file looks like one that serves instead of answering once."""
    return entry.source is not None and bool(_SERVER.search(found.text(entry.source)))


def uninstalled(found: Found, entry: Entry) -> str | None:
    """Returns what has to be installed before the agent can run, as a sentence; None where nothing says so."""
    program = entry.argv[0] if entry.argv else ""
    listed = next(
        (name for name in ("requirements.txt", "uv.lock", "poetry.lock", "Pipfile") if name in found.by_path), None
    )
    if program == "python3" and listed:
        return (
            f"{listed} names packages, and there is no .venv here: the agent gets this machine's python3. Where it "
            "needs them, make .venv first, or name another Python in the command."
        )
    needs = _json(found.text("package.json")).get("dependencies") if "package.json" in found.by_path else None
    if program == "node" and needs and not os.path.isdir(os.path.join(found.root, "node_modules")):
        return "package.json names packages, and there is no node_modules here: run npm ci first."
    return None


def guess(found: Found, entry: Entry) -> Guess:
    """Returns how the agent seems to take its input, by what its first file says; else as an argument."""
    text = found.text(entry.source) if entry.source else ""
    family = _FAMILY.get(File(entry.source, executable=False).suffix, "") if entry.source else ""
    name = entry.source or "it"

    def says(signs: dict[str, str]) -> bool:
        return family in signs and re.search(signs[family], text, re.MULTILINE) is not None

    flag = _FLAG.search(text)
    if flag and not _POSITIONAL.search(text):
        return Guess("argument", f"{name} has an option {flag[1]}", flag=flag[1])
    if says(_FILE):
        return Guess("file", f"{name} opens the file that its first argument names")
    if says(_ARGUMENT):
        return Guess("argument", f"{name} reads its arguments")
    if says(_STDIN):
        return Guess("stdin", f"{name} reads its standard input")
    return Guess("argument", "nothing says otherwise")


def command(argv: Iterable[str], placement: Placement, flag: str | None = None) -> list[str]:
    """Returns the command of one attempt, with the placeholder where the input belongs.

    An agent is started with its stdin closed: one that reads it is started by a shell, which writes the input there.
    """
    plain = list(argv)
    if placement == "stdin":
        return ["sh", "-c", STDIN_SCRIPT, "agent", "{input}", *plain]
    before = [flag] if flag else []
    return [*plain, *before, "{input}" if placement == "argument" else "{input_file}"]


def _by_file(found: Found) -> list[Entry]:
    ranked = sorted((rank, file.path, way) for file in found.files if (way := _way(found, file)) is not None
                    for rank in [_rank(found, file)])  # fmt: skip
    return [way for _, _, way in ranked]


def _rank(found: Found, file: File) -> tuple[int, int, int]:
    stem = _stem(file)
    named = _FIRST.index(stem) if stem in _FIRST else len(_FIRST) + ("agent" not in stem)
    place = _FOLDERS.index(file.folder) if file.folder in _FOLDERS else len(_FOLDERS) + file.depth
    begins = "__main__" in found.text(file.path) or file.executable
    return (place + named, 0 if begins else 1, file.depth)


def _stem(file: File) -> str:
    return file.name.partition(".")[0].lower()


def _way(found: Found, file: File) -> Entry | None:
    if _NEVER.search(file.path) or not (file.folder in _FOLDERS or _stem(file) in _FIRST):
        return None
    if file.suffix == ".py":
        return _python_way(found, file)
    if file.suffix in _NODE:
        return Entry(("node", file.path), "a script of Node", file.path)
    if file.executable and found.text(file.path).startswith("#!"):
        return Entry((f"./{file.path}",), "an executable script", file.path)
    if file.suffix in _INTERPRETERS:
        return Entry((_INTERPRETERS[file.suffix], file.path), "a script", file.path)
    return None


def _python_way(found: Found, file: File) -> Entry | None:
    text = found.text(file.path)
    stem = file.name.removesuffix(".py")
    if stem == "__main__" and all(part.isidentifier() for part in file.folder.split("/")):
        return Entry((python(found), "-m", file.folder.replace("/", ".")), "a package that can be started", file.path)
    if "__main__" not in text and stem not in _FIRST and "sys.argv" not in text and "input(" not in text:
        return None
    return Entry((python(found), file.path), "a script of Python", file.path)


def _declared(found: Found) -> list[Entry]:
    """Returns what a `package.json` names as a program or as the start."""
    if "package.json" not in found.by_path:
        return []
    told = _json(found.text("package.json"))
    programs = told.get("bin")
    listed = list(programs.values()) if isinstance(programs, dict) else [programs]
    scripts = told.get("scripts")
    start = scripts.get("start") if isinstance(scripts, dict) else None
    if isinstance(start, str) and (begun := re.fullmatch(r"node\s+([\w./-]+)", start.strip())):
        listed.append(begun[1])
    listed.append(told.get("main"))
    paths = [path.removeprefix("./") for path in listed if isinstance(path, str)]
    return [
        Entry(("node", path), "package.json names it", path)
        for path in paths
        if path in found.by_path and File(path, executable=False).suffix in _NODE
    ]


def _by_manifest(found: Found) -> list[Entry]:
    """Returns the ways that a language's own tool starts a program."""
    ways = []
    if "go.mod" in found.by_path and "main.go" in found.by_path:
        ways.append(Entry(("go", "run", "."), "go.mod and main.go", "main.go"))
    if "Cargo.toml" in found.by_path and "src/main.rs" in found.by_path:
        ways.append(Entry(("cargo", "run", "--quiet", "--"), "Cargo.toml and src/main.rs", "src/main.rs"))
    for name in _console_scripts(found):
        program = f"{python(found).rpartition('/')[0]}/{name}".lstrip("/")
        ways.append(Entry((program,), "pyproject.toml names it; it has to be installed"))
    return ways


def _console_scripts(found: Found) -> list[str]:
    try:
        told: Any = tomllib.loads(found.text("pyproject.toml")) if "pyproject.toml" in found.by_path else {}
    except (tomllib.TOMLDecodeError, RecursionError):
        return []  # a file that is no TOML names no program; whoever needs it will say so
    project = told.get("project")
    scripts = project.get("scripts") if isinstance(project, dict) else None
    return [name for name in scripts if re.fullmatch(r"[\w.-]+", name)] if isinstance(scripts, dict) else []


def _json(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}  # as above
    return told if isinstance(told, dict) else {}
