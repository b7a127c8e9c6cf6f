"""Looks through a folder that may hold anything: bounded, starting nothing, following no link."""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

MOST_ENTRIES = 20_000
"""How many names are looked at in all; what lies beyond them is not known."""

MOST_IN_ONE_FOLDER = 2_000
DEEPEST = 6
_READ_BYTES = 32 << 10
_MOST_READ = 200
_NAME_CHARACTERS = 200

SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", ".atk", "node_modules", "bower_components", "__pycache__", "site-packages", "vendor",
        ".venv", "venv", "env", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".idea",
        ".vscode", "dist", "build", "target", "coverage", ".next", ".nuxt", ".gradle", ".terraform",
    }
)  # fmt: skip
"""Folders that hold what others wrote or what is built anew."""

LANGUAGES = {
    ".py": "Python", ".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript", ".ts": "TypeScript",
    ".sh": "shell", ".bash": "shell", ".rb": "Ruby", ".go": "Go", ".rs": "Rust", ".php": "PHP", ".pl": "Perl",
    ".lua": "Lua", ".java": "Java", ".kt": "Kotlin", ".cs": "C#", ".r": "R", ".swift": "Swift", ".ex": "Elixir",
}  # fmt: skip


@dataclass(frozen=True)
class File:
    """A regular file of the target, by its path relative to the folder, with `/` between parts."""

    path: str
    executable: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The path of the folder that it lies in; empty for the top."""
        return self.path.rpartition("/")[0]

    @property
    def suffix(self) -> str:
        """Its extension in small letters, with the dot; empty where it has none."""
        return os.path.splitext(self.name)[1].lower()

    @property
    def depth(self) -> int:
        """How many folders it lies below the top."""
        return self.path.count("/")


@dataclass
class Found:
    """What was found in a folder. Paths that could not be written down safely are only counted."""

    root: str
    files: list[File] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """What was not looked at, by reason: links, odd names, unreadable folders, too many."""
    _texts: dict[str, str] = field(default_factory=dict)

    @cached_property
    def by_path(self) -> dict[str, File]:
        """Each file by its path."""
        return {file.path: file for file in self.files}

    @property
    def languages(self) -> list[str]:
        """The languages of the files, the most frequent first."""
        counted = Counter(LANGUAGES[file.suffix] for file in self.files if file.suffix in LANGUAGES)
        return [name for name, _ in counted.most_common()]

    def text(self, path: str) -> str:
        """Returns the beginning of a file as text; empty where it is no regular file, or enough was read already."""
        if path not in self._texts:
            self._texts[path] = _beginning(os.path.join(self.root, path)) if len(self._texts) < _MOST_READ else ""
        return self._texts[path]


def look(root: str) -> Found:
    """Returns what lies in a folder, nearest first: regular files only, in order of their path in each folder.

    Links are not followed, other repositories not entered, and nothing is started. The walk ends after `MOST_ENTRIES`
    names, `MOST_IN_ONE_FOLDER` of one folder and `DEEPEST` folders down; `left_out` counts what that leaves out.
    """
    found = Found(root)
    waiting = [""]
    looked = 0
    for number, folder in enumerate(waiting):
        if looked >= MOST_ENTRIES:
            found.left_out[f"folders beyond the first {MOST_ENTRIES:,} names"] = len(waiting) - number
            break
        names = _entries(os.path.join(root, folder), min(MOST_IN_ONE_FOLDER, MOST_ENTRIES - looked), found.left_out)
        looked += len(names)
        if folder and any(entry.name == ".git" for entry in names):  # no candidate can change what lies there
            found.left_out["repositories of their own"] += 1
            continue
        for entry in names:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not _plain(entry.name):
                found.left_out["names that no terminal shows as they are"] += 1
            elif entry.is_symlink():
                found.left_out["links"] += 1
            elif entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED and path.count("/") < DEEPEST:
                    waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                found.files.append(File(path, executable=_is_executable(entry)))
    return found


def _entries(folder: str, limit: int, left_out: Counter[str]) -> list[os.DirEntry[str]]:
    taken: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(taken) == limit:
                    left_out["folders that hold too many files"] += 1
                    break
                taken.append(entry)
    except OSError:
        left_out["folders that cannot be read"] += 1
    return sorted(taken, key=lambda entry: entry.name)


def _is_executable(entry: os.DirEntry[str]) -> bool:
    try:
        return bool(entry.stat(follow_symlinks=False).st_mode & 0o111)
    except OSError:  # it went while the folder was read, or the folder may be listed and not be entered
        return False


def _plain(name: str) -> bool:
    """Whether a name can be shown, typed, and written as a path that is no pattern and no option."""
    return len(name) <= _NAME_CHARACTERS and name.isprintable() and name[:1] != "-" and not set(name) & set("\\*?{},")


def _beginning(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return file.read(_READ_BYTES).decode("utf-8", "replace")
