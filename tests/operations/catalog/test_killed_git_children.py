"""A git of ATK's that is killed by itself leaves no lock behind, and the call can be made again."""

from __future__ import annotations

import os

from storage.git import Git, GitFailed


def dying(monkeypatch, moves_branch):
    """Lets the first git that updates the branch, or a ref of ATK's, die with its locks taken. Returns the locks."""
    run, locks = Git.run, []

    def killed(self, *arguments, **options):
        if arguments[0] != "update-ref" or ("HEAD" in arguments) != moves_branch or locks:
            return run(self, *arguments, **options)
        *_, ref, commit, _ = arguments
        for name in ("HEAD.lock", "refs/heads/main.lock") if moves_branch else (f"{ref}.lock",):
            path = os.path.join(self.common_dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("" if name == "HEAD.lock" else f"{commit}\n")
            locks.append(path)
        raise GitFailed(command="update-ref", status=-9, reason="it was killed")

    monkeypatch.setattr(Git, "run", killed)
    return locks


def test_a_branch_that_a_killed_git_had_locked_is_free_again_and_can_be_moved(at, monkeypatch):
    target = at("compared")
    locks = dying(monkeypatch, moves_branch=True)
    given = {"round_id": target.round_id, "candidate_id": target.candidate_id}

    error = target.refusal("decide_candidate", **given, action="keep", reason="it passed")

    assert error.code == "git_failed"
    assert len(locks) == 2
    assert not any(map(os.path.lexists, locks))
    assert target.git("rev-parse", "main") == target.commit
    assert target.decide("keep").commit == target.head


def test_a_ref_that_a_killed_git_had_locked_is_free_again(at, monkeypatch):
    target = at("drafted")
    locks = dying(monkeypatch, moves_branch=False)

    error = target.refusal("seal_candidate", round_id=target.round_id, candidate_id=target.candidate_id)

    assert error.code == "git_failed"
    assert len(locks) == 1
    assert not os.path.lexists(locks[0])
    target.seal()
    assert target.git("rev-parse", f"refs/atk/candidates/{target.candidate_id}") == target.sealed_commit
