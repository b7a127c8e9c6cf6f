"""Hostile cases: pointers to large files, nested repositories, owners, links, and programs that settings name."""

from __future__ import annotations

import os

from tests.support.gitcases.builder import Builder, Meanwhile, case

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 6\n"
STRANGER = 54321
"""A user that nobody is."""


@case(why="pointers of large files where git-lfs is not installed: the pointers are the files")
def lfs_pointers(b: Builder) -> None:
    b.base()
    b.w(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    b.w("weights.bin", POINTER.format(digest="0" * 64))
    b.commit()


@case(why="large files on disk and pointers in Git, as git-lfs keeps them: the disk's bytes stay and come back")
def lfs_content(b: Builder) -> None:
    b.base()
    b.w("../store/keep", "")
    clean = "f=$(mktemp); cat >$f; h=$(sha256sum <$f | cut -c1-64); mv $f $S/$h; echo oid $h"
    smudge = "read -r _ h; cat $S/$h"
    for name, program in (("clean", clean), ("smudge", smudge)):
        b.w(f"../{name}.sh", f"S='{b.d}/store'\n{program}\n")
        b.g("config", f"filter.lfs.{name}", f"sh '{b.d}/{name}.sh'")
    b.g("config", "filter.lfs.required", "true")
    b.w(".gitattributes", "*.bin filter=lfs -text\n")
    b.w("weights.bin", bytes(range(256)) * 40)
    b.commit()


@case(freeze="filter_missing", why="a required filter that is not installed: no content can be checked")
def lfs_required_and_missing(b: Builder) -> None:
    b.base()
    b.w(".gitattributes", "*.bin filter=lfs -text\n")
    b.w("weights.bin", POINTER.format(digest="1" * 64))
    b.commit()
    b.g("config", "filter.lfs.clean", "no-such-program-anywhere clean")
    b.g("config", "filter.lfs.required", "true")


@case(why="a repository of the user's inside the project, not tracked: it is another's and stays as it is")
def nested_repository(b: Builder) -> None:
    b.base()
    inner = os.path.join(b.r, "vendor", "tool")
    os.makedirs(inner)
    b.g("init", "-q", "-b", "main", cwd=inner)
    b.w("tool.py", root=inner)
    b.g("add", "-A", cwd=inner)
    b.g("commit", "-qm", "tool", cwd=inner)
    b.w("tool.py", "edited\n", root=inner)


@case(
    seal="other_repository",
    why="the candidate makes a repository: what is in it can be no part of a commit",
    mid=Meanwhile(
        after="freeze",
        shell="mkdir -p skills/tool && git -C skills/tool init -q && printf 'x\\n' > skills/tool/x"
        " && git -C skills/tool add x && git -C skills/tool commit -qm x",
    ),
)
def candidate_makes_repository(b: Builder) -> None:
    b.base()


@case(why="a submodule that was never fetched: an empty folder, and no deletion")
def submodule_absent(b: Builder) -> None:
    library = os.path.join(b.d, "lib")
    os.makedirs(library)
    b.g("init", "-q", "-b", "main", cwd=library)
    b.w("lib.py", root=library)
    b.g("add", "-A", cwd=library)
    b.g("commit", "-qm", "lib", cwd=library)
    b.base()
    b.g("-c", "protocol.file.allow=always", "submodule", "add", "-q", library, "lib")
    b.commit("sub")
    b.g("submodule", "deinit", "-q", "-f", "lib")


@case(keep="git_locked", why="index.lock left by a crash of somebody's git")
def index_lock_left(b: Builder) -> None:
    b.base()
    b.w(".git/index.lock", b"")


@case(
    keep="git_locked",
    why="index.lock left while the clock stood years ahead: its time says nothing about whose it is",
)
def index_lock_from_the_future(b: Builder) -> None:
    b.base()
    os.utime(b.w(".git/index.lock", b""), (4_000_000_000, 4_000_000_000))


@case(
    seal="name_collision",
    why="core.ignorecase: the candidate's skills/NEW.md and skills/new.md are one file on such a disk",
    mid=Meanwhile(after="freeze", shell="mkdir -p skills && printf 'x\\n' > skills/NEW.md"),
)
def ignorecase_collision(b: Builder) -> None:
    b.base()
    b.g("config", "core.ignorecase", "true")


@case(freeze="unsafe_owner", needs="root", why="somebody else's repository: Git trusts none that safe.directory lacks")
def unsafe_owner(b: Builder) -> None:
    b.base()
    for folder, names, files in os.walk(b.r):
        for name in (".", *names, *files):
            os.chown(os.path.join(folder, name), STRANGER, STRANGER, follow_symlinks=False)


@case(needs="root", why="somebody else's repository that the user's safe.directory names")
def safe_directory(b: Builder) -> None:
    b.base()
    b.w("../.gitconfig", f"[safe]\n\tdirectory = {b.r}\n")
    for folder, names, files in os.walk(b.r):
        for name in (".", *names, *files):
            os.chown(os.path.join(folder, name), STRANGER, STRANGER, follow_symlinks=False)


@case(freeze="hardlinked_file", why="a tracked file has another name outside: an edit in place would change that too")
def hardlinked_file(b: Builder) -> None:
    b.base()
    os.link(os.path.join(b.r, "prompt.md"), os.path.join(b.d, "other-name.md"))


@case(freeze="store_is_link", why=".atk is a link: writing through it would leave the project")
def store_is_link(b: Builder) -> None:
    b.base()
    os.makedirs(os.path.join(b.d, "elsewhere"))
    os.symlink("../elsewhere", os.path.join(b.r, ".atk"))


@case(freeze="operation_in_progress", why="revert stopped")
def revert_stopped(b: Builder) -> None:
    b.base()
    for text in ("one\n", "two\n"):
        b.w("prompt.md", text)
        b.commit(text)
    b.g("revert", "--no-edit", "HEAD~1", ok=False)


@case(keep="branch_shared", why="the branch is checked out in another worktree too, whose files would not follow")
def branch_shared(b: Builder) -> None:
    b.base()
    b.g("worktree", "add", "-q", "--force", os.path.join(b.d, "second"), "main")


@case(why="a replaced commit: what HEAD really names counts")
def replaced_commit(b: Builder) -> None:
    b.base()
    b.w("prompt.md", "second\n")
    b.commit("second")
    b.g("replace", "HEAD", "HEAD~1")


@case(why="stashes are the user's, and stay")
def stash_kept(b: Builder) -> None:
    b.base()
    b.w("prompt.md", "stashed\n")
    b.g("stash", "push", "-q")


@case(why="programs that a configuration names for diffs, pagers, editors, transports and signatures: none is run")
def programs_in_config(b: Builder) -> None:
    b.base()
    names = (
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "diff.external",
        "gpg.ssh.program",
        "credential.helper",
        "sequence.editor",
        "diff.text.textconv",
        "merge.text.driver",
        "uploadpack.packObjectsHook",
    )
    for name in names:
        program = b.w(f"../{name}", f"#!/bin/sh\ntouch '{b.d}/RAN-{name}'\nexit 1\n", 0o755)
        b.g("config", name, program)
    b.w(".gitattributes", "*.md diff=text merge=text\n")
    b.commit()


@case(why="a configuration of its own for each worktree", sub="wt")
def worktree_config(b: Builder) -> None:
    b.base()
    b.g("config", "extensions.worktreeConfig", "true")
    wt = os.path.join(b.d, "wt")
    b.g("worktree", "add", "-q", "-b", "wt", wt)
    b.g("config", "--worktree", "core.fileMode", "true", cwd=wt)


@case(why="the project's folder has a name made to be misread", sub="re po\n'$(touch pwned)'")
def odd_folder(b: Builder) -> None:
    b.base()
    os.rename(b.r, os.path.join(b.d, "re po\n'$(touch pwned)'"))


@case(
    freeze="dirty",
    why="the user's edits outside what a candidate may change: they stay, uncommitted and unstaged as they were",
)
def edits_outside_scope(b: Builder) -> None:
    b.base()
    b.w("run.sh", "#!/bin/sh\necho edited\n", 0o755)
    b.w("staged.txt", "mine\n")
    b.g("add", "staged.txt")
