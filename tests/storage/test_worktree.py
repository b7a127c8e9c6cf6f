"""The worktree's facts are stated exactly, and stating them changes nothing."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.git import Git
from storage.worktree import (
    HardlinkedFile,
    StoreIsLink,
    TooManyInputs,
    TrackedStore,
    UnsafePattern,
    check_patterns,
    decode_path,
    encode_path,
    in_scope,
    project_path,
    ready,
    repository_path,
    snapshot,
    surroundings,
)
from storage.worktree.disk import fingerprint
from tests.support.gitcases.builder import Builder
from tests.support.gitcases.driver import changed, content


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return Builder(str(tmp_path)).base()


@pytest.fixture
def git(made):
    with Git(made.r) as opened:
        yield opened


@given(st.binary())
def test_any_path_can_be_written_down_and_read_back(path):
    encoded = encode_path(path)

    assert encoded.encode().decode() == encoded
    assert decode_path(encoded) == path


def test_a_valid_name_stands_as_it_is():
    assert encode_path("naïve-😀.md".encode()) == "naïve-😀.md"
    assert encode_path(b"caf\xe9\\x") == "caf\\xe9\\\\x"


@pytest.mark.parametrize("text", ["a\\b", "a\\", "\\x", "\ud800"])
def test_what_was_never_written_down_is_refused(text):
    with pytest.raises(ValueError, match=r"backslash|surrogates"):
        decode_path(text)


@pytest.mark.parametrize(
    ("path", "pattern", "covered"),
    [
        ("a/b.py", ".", True),
        ("a/b.py", "**", True),
        ("a/b.py", "a", True),
        ("a/b.py", "a/", True),
        ("ab/b.py", "a", False),
        ("a/b.py", "a/b.py", True),
        ("a/b.py", "*.py", False),
        ("b.py", "*.py", True),
        ("b.py", "**/*.py", True),
        ("a/c/b.py", "**/*.py", True),
        ("a/c/b.py", "a/*/b.py", True),
        ("a/c/d/b.py", "a/*/b.py", False),
        ("a/c/d/b.py", "a/**", True),
        ("a/b.py", "a/?.py", True),
        ("[abc].txt", "[abc].txt", True),
        ("a.txt", "[abc].txt", False),
        ("new\nline.md", "*.md", True),
    ],
)
def test_patterns_cover_what_they_say(path, pattern, covered):
    assert in_scope(path, [pattern]) is covered


@pytest.mark.parametrize(
    "pattern",
    ["", "/etc", "~/x", "C:/x", "a/../b", "..", ".git/config", "a/.GIT/x", ".atk", ".atk.new-1/x", "a//b", "a\\b"],
)
def test_patterns_that_could_leave_the_project_are_refused(pattern):
    with pytest.raises(UnsafePattern) as raised:
        check_patterns([pattern])
    assert raised.value.facts["pattern"] == pattern


def test_patterns_come_back_in_one_spelling():
    assert check_patterns(["./a/", "**", ".", "b/*.md"]) == ("a", ".", ".", "b/*.md")


def test_a_project_in_a_subfolder_has_paths_of_its_own(made):
    made.files(os.path.join(made.r, "pkg"))
    with Git(os.path.join(made.r, "pkg")) as git:
        assert repository_path(git, "agent.py") == "pkg/agent.py"
        assert project_path(git, "pkg/agent.py") == "agent.py"
        assert project_path(git, "agent.py") is None


def test_a_clean_repository_is_ready_and_has_empty_surroundings(git):
    head = ready(git)
    found = surroundings(git, [])

    assert head.branch == "refs/heads/main"
    assert head.commit == git.line("rev-parse", "HEAD")
    assert head.tree == git.line("rev-parse", "HEAD^{tree}")
    assert (found.dirty, found.staged, found.untracked, found.inputs, found.raw) == ({}, (), {}, {}, {})


def test_every_kind_of_pending_change_is_dirty(made, git):
    made.w("prompt.md", "edited\n")
    os.unlink(os.path.join(made.r, "data/cfg.json"))
    made.w("soon.txt")
    made.g("add", "-N", "soon.txt")
    made.w("staged.txt")
    made.g("add", "staged.txt")
    made.w("run.sh", "other\n")
    made.g("add", "run.sh")
    made.w("run.sh", '#!/bin/sh\nexec python3 agent.py "$@"\n')
    made.w("notes.txt")
    before = content(made.d)

    found = surroundings(git, [])

    assert set(found.dirty) == {"prompt.md", "data/cfg.json", "soon.txt", "staged.txt", "run.sh"}
    assert found.dirty["data/cfg.json"] == "absent"
    assert found.staged == ("run.sh", "soon.txt", "staged.txt")
    assert set(found.untracked) == {"notes.txt"}
    assert changed(before, content(made.d)) == []


def test_the_digest_follows_the_content_and_not_the_time(made, git):
    made.w("notes.txt", "one\n")
    first = surroundings(git, []).digest
    os.utime(os.path.join(made.r, "notes.txt"), (1, 1))
    assert surroundings(git, []).digest == first
    made.w("notes.txt", "two\n")
    assert surroundings(git, []).digest != first


def test_declared_inputs_are_fingerprinted_although_ignored(made, git):
    made.w(".gitignore", "cache/\n.env\n")
    made.commit()
    made.w("cache/a", "a\n")
    made.w("cache/.git/config", "x\n")
    made.w(".env", "KEY=1\n", mode=0o755)
    os.symlink("nowhere", os.path.join(made.r, "cache/link"))

    found = surroundings(git, ["cache", ".env", "gone"])

    assert set(found.inputs) == {"cache/a", "cache/link", ".env", "gone"}
    assert found.inputs["cache/link"] == "link:nowhere"
    assert found.inputs["gone"] == "absent"
    assert found.inputs[".env"].endswith(":100755")
    assert found.untracked == {}


def test_too_many_inputs_are_refused(git, monkeypatch):
    monkeypatch.setattr(snapshot, "MOST_INPUTS", 2)
    with pytest.raises(TooManyInputs):
        surroundings(git, ["."])


def test_bytes_that_differ_from_the_blob_are_kept_exactly(made, git):
    made.g("config", "core.autocrlf", "true")
    made.w("windows.txt", b"a\r\nb\r\n")
    made.w("odd\nname.txt", b"c\r\n")
    made.commit()

    found = surroundings(git, [])

    assert set(found.raw) == {"windows.txt", "odd\nname.txt"}
    assert git.read(found.raw["windows.txt"]) == b"a\r\nb\r\n"
    assert git.read(found.raw["odd\nname.txt"]) == b"c\r\n"


def test_file_whose_name_ends_in_a_carriage_return_is_not_taken_for_its_neighbour(made, git):
    """macOS names the icon of a folder `Icon` and a carriage return."""
    made.g("config", "core.autocrlf", "true")
    lying = {"Icon": b"plain\r\n", "Icon\r": b"of the folder\r\n", "alone\r": b"without a neighbour\r\n"}
    for name, data in lying.items():
        made.w(name, data)
    made.commit()

    assert {name: git.read(blob) for name, blob in surroundings(git, []).raw.items()} == lying


def test_no_two_contents_of_a_folder_have_one_fingerprint(tmp_path):
    """A link's target may hold a line that looks like that of another entry."""
    lying = {"two": {"a": "x", "b": "y"}, "one": {"a": "x\n3:f/b link:y"}, "other": {"a": "x\\n3:f/b link:y"}}
    for name, links in lying.items():
        (tmp_path / name / "f").mkdir(parents=True)
        for link, target in links.items():
            os.symlink(target, tmp_path / name / "f" / link)

    assert len({fingerprint(str(tmp_path / name), b"f") for name in lying}) == len(lying)


def test_the_store_is_never_looked_at(made, git):
    made.w(".atk/journal/1", "x\n")
    made.w(".atk.new-abc/x", "x\n")
    found = surroundings(git, ["."])
    assert found.untracked == {}
    assert not [x for x in found.inputs if ".atk" in x]
    assert not [x for x in found.folders if ".atk" in x]


def test_a_tracked_store_is_refused(made, git):
    made.w(".atk/x", "x\n")
    made.g("add", "-f", ".atk/x")
    with pytest.raises(TrackedStore):
        ready(git)


def test_a_linked_store_is_refused(made, git):
    os.symlink("/tmp", os.path.join(made.r, ".atk"))
    with pytest.raises(StoreIsLink):
        ready(git)


def test_a_hard_linked_file_is_refused(made, git):
    os.link(os.path.join(made.r, "prompt.md"), os.path.join(made.d, "twin"))
    with pytest.raises(HardlinkedFile, match=r"prompt\.md"):
        ready(git)
