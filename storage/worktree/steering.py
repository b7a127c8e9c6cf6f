"""What in a repository decides how its files are compared, so that a change of it during a run does not hide others."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from storage.git import Git

SETTINGS = "config"
"""The name under which the settings stand; the others are files below Git's folder."""

_COMMON = ("info/attributes", "info/exclude", "info/grafts")
_OWN = ("info/sparse-checkout",)
_SECTIONS = (b"filter.", b"extensions.")
_KEYS = frozenset({b"attr.tree"}) | frozenset(
    b"core." + name
    for name in (
        b"attributesfile",
        b"autocrlf",
        b"bare",
        b"checkstat",
        b"eol",
        b"excludesfile",
        b"filemode",
        b"ignorecase",
        b"precomposeunicode",
        b"sparsecheckout",
        b"symlinks",
        b"trustctime",
        b"worktree",
    )
)
_CONVERTING = frozenset({b"attr.tree", b"core.attributesfile", b"core.autocrlf", b"core.eol"})


def steering(git: Git) -> dict[str, str]:
    """Returns a digest of each thing that steers Git's comparisons; what does not exist is left out."""
    listed = sorted(
        entry
        for entry in git.records("config", "-z", "--list")
        if (key := entry.partition(b"\n")[0].lower()).startswith(_SECTIONS) or key in _KEYS
    )
    found = {SETTINGS: hashlib.sha256(b"\0".join(listed)).hexdigest()}
    for folder, names in ((git.common_dir, _COMMON), (git.git_dir, _OWN)):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):  # a pipe would be waited for
                with open(path, "rb") as file:
                    found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def conversions(git: Git) -> dict[str, str]:
    """Returns the settings by which Git converts files here, where some of the user's may hold only here; else none.

    They hold for one worktree, or on a condition such as the branch (`includeIf`) that is not met by a Revision apart.
    """
    entries = [entry.partition(b"\n") for entry in git.records("config", "-z", "--list")]
    if not any(key.startswith(b"includeif.") or key == b"extensions.worktreeconfig" for key, _, _ in entries):
        return {}
    # The value of a setting without one is yes.
    return {
        os.fsdecode(key): os.fsdecode(value) if marked else "true"
        for key, marked, value in entries
        if key.startswith(b"filter.") or key in _CONVERTING
    }


def steered(git: Git, before: Mapping[str, str]) -> list[str]:
    """Names what steers Git and is not as `before`, as paths below the repository."""
    now = steering(git)
    return [f".git/{name}" for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
