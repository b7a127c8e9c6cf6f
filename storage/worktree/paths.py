r"""Paths as ATK writes them down: reversible text, relative, and inside a declared scope or not.

A path of Git's is bytes. As text it is its UTF-8 with each backslash doubled and each byte that is not UTF-8 as
`\xNN`, so that any path can stand in JSON. *Repository paths* are relative to the worktree's top, *project paths* to
the project folder, which may lie below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.git import Git

STORE = b".atk"
"""The store's folder in the project, which is never part of the worktree that ATK looks at."""

NEW_STORE = b".atk.new-"
"""The beginning of the names that a store has while it is made."""


@dataclass(kw_only=True, eq=False)
class UnsafePattern(AtkError):
    """A path or pattern of the caller's could name something outside the project, or Git's or ATK's own files."""

    message: ClassVar[str] = (
        "The path pattern {pattern!r} is refused: {reason}. Give a file, a folder or a glob with *, ** and ? relative "
        "to the project folder, such as prompts/** or agent.py."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    pattern: str
    reason: str


def encode_path(path: bytes) -> str:
    """Returns a path of the file system's as text; `decode_path` gives the same bytes back."""
    return path.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def decode_path(path: str) -> bytes:
    r"""Returns the bytes of a path that `encode_path` wrote down.

    Raises:
        ValueError: A backslash is followed by neither a backslash nor `xNN`, or the text has a lone surrogate.
    """

    def byte(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return bytes([int(found[1], 16)])
        if found[0] == b"\\\\":
            return b"\\"
        raise ValueError(f"{path!r} has a backslash that stands for nothing")

    return re.sub(rb"\\(?:x([0-9a-f]{2})|.|$)", byte, path.encode(), flags=re.DOTALL)


def project_path(git: Git, path: str) -> str | None:
    """Returns a repository path as a project path, or None when it lies outside the project."""
    prefix = encode_path(git.prefix)
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def repository_path(git: Git, path: str) -> str:
    """Returns a project path as a repository path; `.` becomes the folder with its slash, or nothing."""
    prefix = encode_path(git.prefix)
    return prefix if path in {".", ""} else prefix + path


def is_store(path: bytes, prefix: bytes) -> bool:
    """Whether a repository path lies in the project's store, or in one that is being made."""
    first = path.removeprefix(prefix).split(b"/", 1)[0] if path.startswith(prefix) else b""
    return first == STORE or first.startswith(NEW_STORE)


def check_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """Returns the patterns in one spelling: no leading `./`, no trailing slash, `.` for everything.

    Raises:
        UnsafePattern: One is empty, absolute, leaves the project, or names `.git` or `.atk`.
    """
    return tuple(_checked(x) for x in patterns)


def _checked(pattern: str) -> str:
    plain = pattern
    while plain.startswith("./") and plain != "./":
        plain = plain[2:]
    plain = plain.rstrip("/") if plain != "/" else plain
    parts = plain.split("/")
    reason = next((why for why, wrong in _faults(pattern, parts) if wrong), None)
    if reason:
        raise UnsafePattern(pattern=pattern, reason=reason)
    return "." if plain == "**" else plain


def _faults(pattern: str, parts: Sequence[str]) -> Iterable[tuple[str, bool]]:
    folded = [x.casefold() for x in parts]
    yield "it is empty", not pattern.strip()
    yield "it holds a NUL character", "\0" in pattern
    yield "it is absolute", pattern.startswith(("/", "~")) or bool(re.match(r"[A-Za-z]:", pattern))
    yield "it has a part ..", ".." in parts
    yield "it has an empty part or a part .", "" in parts or ("." in parts and len(parts) > 1)
    yield "it names .git", ".git" in folded
    yield "it names .atk", any(x == ".atk" or x.startswith(".atk.new-") for x in folded)
    yield "a backslash must be doubled", not _decodable(pattern)


def _decodable(pattern: str) -> bool:
    try:
        decode_path(pattern)
    except ValueError:
        return False
    return True


def in_scope(path: str, patterns: Iterable[str]) -> bool:
    """Whether a project path is covered by one of the patterns, which are project-relative too.

    `.` and `**` cover everything; a file covers itself and a folder all below it; in a glob `*` and `?` stay within one
    part of the path and `**` crosses parts.
    """
    return any(_covers(pattern, path) for pattern in patterns)


def _covers(pattern: str, path: str) -> bool:
    plain = pattern.removeprefix("./").rstrip("/")
    if plain in {".", "**", ""} or path == plain or path.startswith(plain + "/"):
        return True
    return bool(re.search(r"[*?]", plain)) and bool(_glob(plain).fullmatch(path))


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    marks = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(marks.get(x, re.escape(x)) for x in parts), re.DOTALL)


def shown_path(git: Git, path: str) -> str:
    """Returns a repository path as the project sees it; one outside it begins with as many `../` as that takes."""
    inside = project_path(git, path)
    return inside if inside is not None else "../" * git.prefix.count(b"/") + path
