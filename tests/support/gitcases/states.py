"""Hostile cases: what users have pending, what they do meanwhile, and what lies on the disk."""

from __future__ import annotations

import os
import socket

from tests.support.gitcases.builder import Builder, Meanwhile, case


@case(why="the plain case")
def clean(b: Builder) -> None:
    b.base()


@case(
    freeze="dirty",
    why="staged user change: the baseline would not be what ran",
)
def staged_change(b: Builder) -> None:
    b.base()
    b.w("prompt.md", "staged by user\n")
    b.g("add", "prompt.md")


@case(freeze="dirty", why="unstaged user change")
def unstaged_change(b: Builder) -> None:
    b.base()
    b.w("prompt.md", "edited by user\n")


@case(freeze="dirty", why="intent-to-add entry is a pending user change")
def intent_to_add(b: Builder) -> None:
    b.base()
    b.w("soon.txt")
    b.g("add", "-N", "soon.txt")


@case(freeze="dirty", why="deleted but not staged")
def user_deleted(b: Builder) -> None:
    b.base()
    os.unlink(os.path.join(b.r, "data/cfg.json"))


@case(why="untracked user files must survive byte for byte")
def untracked(b: Builder) -> None:
    b.base()
    b.w("notes.txt", "mine\n")
    b.w("dir/draft.md", "draft\n")


@case(why="ignored files (venv, .env with secrets) are never added, never removed")
def ignored(b: Builder) -> None:
    b.base()
    b.w(".gitignore", ".env\nvenv/\n*.log\n")
    b.commit()
    b.w(".env", "API_KEY=not-a-real-key\n")
    b.w("venv/lib.py")
    b.w("run.log")


@case(why="empty folders made by the user are not Git's and must stay")
def empty_dirs(b: Builder) -> None:
    b.base()
    os.makedirs(os.path.join(b.r, "empty/deep"))


@case(
    why="a user's own empty folder inside a candidate-made folder's parent; removal must be rmdir-only",
)
def empty_dir_same_as_candidate(b: Builder) -> None:
    b.base()
    os.makedirs(os.path.join(b.r, "skills"))


@case(
    reject="unknown_content",
    keep="unknown_content",
    why="user edits a candidate file after sealing",
    mid=Meanwhile(after="seal", shell="printf 'user line\\n' >> prompt.md"),
)
def user_edits_after_seal(b: Builder) -> None:
    b.base()


@case(
    reject="unknown_content",
    keep="unknown_content",
    why="the candidate deleted data/old.txt; the user now has an untracked file there",
    mid=Meanwhile(after="seal", shell="printf 'precious\\n' > data/old.txt"),
)
def untracked_in_the_way(b: Builder) -> None:
    b.base()


@case(
    reject="ok",
    why="user adds an unrelated untracked file after sealing: it stays",
    mid=Meanwhile(after="seal", shell="printf 'todo\\n' > todo.txt"),
)
def untracked_after_seal(b: Builder) -> None:
    b.base()


@case(
    seal="head_moved",
    why="user commits while the candidate is being edited",
    mid=Meanwhile(after="freeze", shell="git commit -q --allow-empty --no-verify -m user"),
)
def head_moved_before_seal(b: Builder) -> None:
    b.base()


@case(
    reject="head_moved",
    keep="head_moved",
    why="user commits after sealing",
    mid=Meanwhile(after="seal", shell="git commit -q --allow-empty --no-verify -m user"),
)
def head_moved_after_seal(b: Builder) -> None:
    b.base()


@case(
    reject="head_moved",
    keep="head_moved",
    why="user switched branch at the same commit: the name HEAD points to is part of the baseline",
    mid=Meanwhile(
        after="seal", shell="git symbolic-ref HEAD refs/heads/other && git update-ref refs/heads/other refs/heads/main"
    ),
)
def branch_switched(b: Builder) -> None:
    b.base()


@case(
    why="the user stages a further file after sealing: it stays staged, and is swept into nothing",
    mid=Meanwhile(after="seal", shell="printf 's\\n' > staged.txt; git add staged.txt"),
)
def staged_after_seal(b: Builder) -> None:
    b.base()


@case(
    keep="staged",
    why="the user stages a file of the candidate's: keeping it would publish both as one",
    mid=Meanwhile(after="seal", shell="git add prompt.md"),
)
def staged_candidate_path(b: Builder) -> None:
    b.base()


@case(why="executable bits come back")
def exec_bits(b: Builder) -> None:
    b.base()
    b.w("bin/tool", "#!/bin/sh\n", 0o755)
    b.commit()


@case(why="core.fileMode=false: modes come from the index, chmod is not a change")
def filemode_false(b: Builder) -> None:
    b.base()
    b.g("config", "core.fileMode", "false")
    os.chmod(os.path.join(b.r, "data/cfg.json"), 0o755)


@case(why="links are data (120000), never followed; outside targets stay untouched")
def symlinks(b: Builder) -> None:
    b.base()
    b.w("outside.txt", "outside\n", root=b.d)
    for n, t in (
        ("l_file", "prompt.md"),
        ("l_dir", "data"),
        ("l_dangling", "nowhere"),
        ("l_out", "../outside.txt"),
        ("l_abs", "/etc/hostname"),
    ):
        os.symlink(t, os.path.join(b.r, n))
    b.commit()


@case(
    seal="leaves_worktree",
    why="the candidate replaced folder data/ with a link to outside: writing through it would leave the worktree",
    mid=Meanwhile(
        after="freeze",
        shell="mkdir ../elsewhere && cp data/* ../elsewhere/ && rm -r data && ln -s ../elsewhere data"
        " && printf 'w\\n' > data/cfg.json",
    ),
)
def dir_becomes_symlink(b: Builder) -> None:
    b.base()


@case(why="untracked socket and FIFO are left alone and never opened")
def special_untracked(b: Builder) -> None:
    b.base()
    os.mkfifo(os.path.join(b.r, "pipe"))
    s = socket.socket(socket.AF_UNIX)
    cwd = os.getcwd()
    os.chdir(b.r)
    try:
        s.bind("sock")
    finally:
        s.close()
        os.chdir(cwd)


@case(
    why="a file became a folder (and back on reject)",
    mid=Meanwhile(
        after="freeze", shell="rm data/cfg.json && mkdir data/cfg.json && printf 'x\\n' > data/cfg.json/inner"
    ),
)
def file_becomes_dir(b: Builder) -> None:
    b.base()
