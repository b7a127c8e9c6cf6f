"""What a Round has to do in each hostile repository, written before it was tried; any other refusal is a fault."""

from __future__ import annotations

from tests.support.gitcases.driver import CASES, Case

STEPS = ("freeze", "seal", "keep", "restore", "reject")
"""Up to the frozen plan; the sealed candidate; the kept one; back to the baseline; or the rejected one."""

WORKS = frozenset(
    {
        "attributes_eol",
        "autocrlf_true",
        "big_file",
        "case_collision",
        "clean",
        "detached",
        "edits_outside_scope",
        "empty_dir_same_as_candidate",
        "empty_dirs",
        "env_pollution",
        "exec_bits",
        "file_becomes_dir",
        "filemode_false",
        "filter_roundtrip",
        "fsmonitor_daemon",
        "fsmonitor_hook",
        "git_dir_link",
        "gpgsign",
        "grafts",
        "hooks",
        "hooks_in_settings",
        "hooks_path",
        "ident_keyword",
        "ignored",
        "include_if",
        "index_v4",
        "intent_to_add",
        "lfs_content",
        "lfs_pointers",
        "linked_worktree",
        "many_files",
        "monorepo_dirty_sibling",
        "monorepo_subdir",
        "nested_repository",
        "odd_branch",
        "odd_folder",
        "odd_names",
        "packed_alternates",
        "partial_clone",
        "programs_in_config",
        "project_is_submodule",
        "refs_elsewhere",
        "reftable_elsewhere",
        "reftable_linked_worktree",
        "reftable_repo",
        "replaced_commit",
        "safe_directory",
        "safecrlf_mixed",
        "separate_git_dir",
        "settings_that_hide",
        "sha256_repo",
        "shallow",
        "sparse_checkout",
        "sparse_index",
        "special_untracked",
        "split_index",
        "stash_kept",
        "submodule_absent",
        "submodule_clean",
        "submodule_dirty",
        "symbolic_branch",
        "symlinks",
        "symlinks_as_files",
        "unicode_forms",
        "untracked",
        "utf16_encoding",
        "worktree_config",
        "worktree_inside",
        "worktree_of_bare",
    }
)
"""Where every step has to work."""

_BUSY = {"freeze": "operation_in_progress"}
_LOCKED = {"keep": "git_locked"}
_MOVED = {"keep": "baseline_drifted", "reject": "baseline_drifted"}
_UNKNOWN = {"keep": "unknown_content", "reject": "unknown_content"}
_PENDING = {"freeze": "files_in_the_way"}
_BESIDE = {"restore": "surroundings_changed"}

REFUSED: dict[str, dict[str, str]] = {
    "alternates_gone": {"freeze": "corrupt_repository"},
    "am_stopped": _BUSY,
    "assume_unchanged": {"freeze": "hidden_change"},
    "bare": {"freeze": "bare_repository"},
    "bisect_running": _BUSY,
    "branch_shared": {"keep": "branch_shared"},
    "branch_switched": _MOVED,
    "broken_gitfile": {"freeze": "not_a_repository"},
    "candidate_is_pipe": {"seal": "special_file"},
    "candidate_links_out": {"seal": "leaves_worktree"},
    "candidate_makes_repository": {"seal": "other_repository"},
    "cherry_pick_stopped": _BUSY,
    "core_worktree_elsewhere": {"freeze": "worktree_elsewhere"},
    "dir_becomes_symlink": {"seal": "leaves_worktree"},
    "empty_candidate": {"seal": "nothing_changed"},
    "filter_fails": {"freeze": "filter_missing"},
    "filter_unstable": {"freeze": "filter_unstable"},
    "hardlinked_file": {"freeze": "hardlinked_file"},
    "head_lock_left": _LOCKED,
    "head_moved_after_seal": _MOVED,
    "head_moved_before_seal": {"seal": "baseline_drifted"},
    "ignorecase_collision": {"seal": "name_collision"},
    "index_lock_from_the_future": _LOCKED,
    "index_lock_left": _LOCKED,
    "lfs_required_and_missing": {"freeze": "filter_missing"},
    "lost_object": {"seal": "corrupt_repository"},
    "merge_conflict": _BUSY,
    "merge_uncommitted": _BUSY,
    "not_a_repo": {"freeze": "not_a_repository"},
    "racy_entry": _PENDING,
    "rebase_stopped": _BUSY,
    "ref_lock_left": _LOCKED,
    "reftable_lock_left": {"seal": "git_locked"},
    "reftable_pick_stopped": _BUSY,
    "revert_stopped": _BUSY,
    "skip_worktree": {"freeze": "hidden_change"},
    "staged_after_seal": _BESIDE,
    "staged_candidate_path": {"keep": "staged"},
    "staged_change": _PENDING,
    "store_is_link": {"freeze": "store_is_link"},
    "submodule_edit_in_candidate": {"seal": "other_repository"},
    "unborn": {"freeze": "no_commit_yet"},
    "unknown_extension": {"freeze": "repository_too_new"},
    "unsafe_owner": {"freeze": "unsafe_owner"},
    "unstaged_change": _PENDING,
    "untracked_after_seal": _BESIDE,
    "untracked_in_the_way": _UNKNOWN,
    "user_deleted": _PENDING,
    "user_edits_after_seal": _UNKNOWN,
    "zero_length_object": {"freeze": "corrupt_repository"},
}
"""Kind → step → the code of the refusal; the steps before it have to work, and those after it are not reached."""


def ends(case: Case) -> tuple[str, ...]:
    """Returns the ways to take a case to: each of them needs a repository of its own."""
    refused = REFUSED.get(case.name, {})
    return ("keep",) if {"freeze", "seal"} & refused.keys() else ("keep", "reject")


def expected(case: Case, end: str) -> dict[str, str]:
    """Returns what each step has to answer, up to the one that refuses."""
    refused, answers = REFUSED.get(case.name, {}), {}
    for step in ("freeze", "seal", *(("keep", "restore") if end == "keep" else ("reject",))):
        answers[step] = refused.get(step, "ok")
        if step in refused:
            break
    return answers


def unknown() -> set[str]:
    """Returns the kinds of which nothing, or both, is written here."""
    return set(CASES) ^ WORKS ^ REFUSED.keys() | WORKS & REFUSED.keys()
