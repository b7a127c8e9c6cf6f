"""Takes one hostile repository through a Round, by the operations, and tells what was touched and should not be."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.project import Project
from tests.support.gitcases.builder import GIT, Builder, Case
from tests.support.gitcases.driver import QUIET, Tree, changed, content, edit
from tests.support.rounds import DIGEST, store, validate

SCOPE = ["prompt.md", "skills", "data", "agent.py", "big.bin"]
SPEC = {"dimensions": ["correctness"], "dimension_rules": {"correctness": "the answer is right"}}
CASES_CSV = "id,input,expected\nc1,one,1\nc2,two,2\n"
MARKS = ("HOOK-", "-RAN", "RAN-", "pwned")
"""In the names of files that only a program of the repository's makes."""


@dataclass
class Outcome:
    """What each step answered, what was touched and should not have been, and the words of the refusal."""

    answers: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    said: str = ""


class Walk:
    """A Round in one repository. It has what `tests.support.rounds` asks of a target."""

    def __init__(self, case: Case, folder: str) -> None:
        self.case, self.folder = case, os.path.join(folder, "case")
        self.root = case.build(self.folder)
        self.source = os.path.join(folder, "cases.csv")
        with open(self.source, "w", encoding="utf-8") as file:
            file.write(CASES_CSV)
        self.ids: dict[str, Any] = {}
        self.outcome = Outcome()
        self.others: set[bytes] = set()
        for mark in self.marks():
            if not mark.endswith("id`.txt") and os.path.isfile(mark):  # building the case ran hooks
                os.unlink(mark)
        self.made = self.marks()

    def marks(self) -> set[str]:
        walked = os.walk(self.folder)
        return {
            os.path.join(d, x) for d, names, files in walked for x in (*names, *files) if any(m in x for m in MARKS)
        }

    def call(self, operation_name: str, **arguments: Any) -> Any:
        return invoke(all_operations()[operation_name], {"project_path": self.root, **arguments})

    @property
    def project(self) -> Project:
        return Project.open(self.root)

    @property
    def state(self) -> Any:
        return self.project.state()

    def git(self, *arguments: str) -> bytes:
        env = {**Builder(self.folder).env(), "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
        env.pop("GIT_CONFIG_GLOBAL")
        command = [GIT, *QUIET, *arguments]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, check=True).stdout

    def status(self) -> set[bytes]:
        return {line for line in self.git("status", "--porcelain", "-z", "--no-renames").split(b"\0") if line}

    def refs(self) -> set[bytes]:
        """Returns the refs of the user's but the branch: where they are no files, no bytes tell of them."""
        branch = self.git("rev-parse", "--symbolic-full-name", "HEAD").strip()
        said = self.git("for-each-ref", "--format=%(objectname) %(refname) %(symref)").splitlines()
        return {x for x in said if b" refs/atk/" not in x and branch not in x.split(b" ")[1:]}

    def freeze(self) -> None:
        command = ["python3", "agent.py", "{input_file}"]
        self.call("initialize_project", command=command, external_effects=[], allowed_paths=SCOPE)
        dataset_id = self.call("store_dataset", source=self.source).dataset_id
        rules = _rules()
        store(self, *rules)  # type: ignore[arg-type]
        self.ids["round_id"] = self.call("create_round").round_id
        issue = {"id": "one", "symptom": "wrong", "hypothesis": "no rule", "case_ids": ["c1"]}
        made = self.call("store_diagnosis", round_id=self.ids["round_id"], issues=[issue])
        self.ids["issue_id"] = made.issue_ids["one"]
        plan = {"dataset_id": dataset_id, "spec_id": rules[0].id, "judger_id": rules[1].id}
        self.call("freeze_round", round_id=self.ids["round_id"], plan={"repeatability": "deterministic", **plan})

    def prepare(self) -> None:
        issue = {"primary_issue_id": self.ids["issue_id"]}
        self.ids["candidate_id"] = self.call("prepare_candidate", round_id=self.ids["round_id"], **issue).candidate_id

    def seal(self) -> None:
        self.call("seal_candidate", **self._named())

    def keep(self) -> None:
        validate(self, self.ids["candidate_id"])  # type: ignore[arg-type]
        self.call("decide_candidate", **self._named(), action="keep", reason="because")

    def reject(self) -> None:
        why = {"reason": "because", "validation_missing_reason": "nobody ran it"}
        self.call("decide_candidate", **self._named(), action="reject", **why)

    def restore(self) -> None:
        self.call("rollback_to", round_id=self.ids["round_id"], target_commit=self.baseline, reason="because")

    def _named(self) -> dict[str, str]:
        return {key: self.ids[key] for key in ("round_id", "candidate_id")}

    def answer(self, step: str, do: Callable[[], None]) -> bool:
        """Does a step, notes its answer, and checks that a refusal left everything as it was and says what to do."""
        before = content(self.folder)
        try:
            do()
        except AtkError as refusal:
            self.outcome.answers[step] = refusal.code
            self.outcome.said = str(refusal)
            if not refusal.next:
                self.outcome.problems.append(f"{step}: {refusal.code} names no next call")
            if touched := changed(before, content(self.folder)):
                self.outcome.problems.append(f"refused {step} changed {touched[:3]}")
            return False
        self.outcome.answers[step] = "ok"
        return True

    def meanwhile(self, after: str) -> None:
        mid = self.case.mid
        if mid and mid.after == after and mid.shell != "NOEDIT":
            env = Builder(self.folder).env()
            subprocess.run(["/bin/sh", "-c", mid.shell], cwd=self.root, env=env, check=True, timeout=60)
            self.others = self.refs()

    def untouched(self, step: str, before: Tree, *, may: tuple[bytes, ...] = ()) -> None:
        """Notes what is not as it was, but for files of Git's own whose names end as `may` says."""
        now = content(self.folder)
        if touched := [
            path for path in changed(before, now) if not (b".git" in path and path.endswith(may or (b"\0",)))
        ]:
            self.outcome.problems.append(f"{step} changed {touched[:4]}")
        if others := self.refs() ^ self.others:
            self.outcome.problems.append(f"{step} changed the refs {sorted(others)[:4]}")

    def moved(self) -> tuple[bytes, ...]:
        """Names the files of Git's that a moved branch changes."""
        branch = self.git("rev-parse", "--symbolic-full-name", "HEAD").strip()
        shared = tuple(x for x in content(self.folder) if b"sharedindex." in x)
        return (b"/index", b"/HEAD" if branch == b"HEAD" else b"/" + branch, *shared)

    def go(self, end: str) -> Outcome:
        base = content(self.folder)
        with suppress(subprocess.CalledProcessError):  # no repository, or none that can be read: the freeze refuses
            self.others = self.refs()
        if not self.answer("freeze", self.freeze):
            return self.outcome
        self.untouched("freeze", base)
        self.baseline = self.git("rev-parse", "HEAD").decode().strip()
        at_first, entries = self.status(), self.git("ls-files", "-s", "-z")
        self.prepare()
        self.meanwhile("freeze")
        if not (self.case.mid and self.case.mid.shell == "NOEDIT"):
            edit(self.root)
        edited = content(self.folder)
        if not self.answer("seal", self.seal):
            return self.outcome
        self.untouched("seal", edited)
        self.meanwhile("seal")
        meant = content(self.folder)
        if end == "reject":
            if self.answer("reject", self.reject):
                self.as_before("reject", {**base, **{x: meant[x] for x in changed(edited, meant) if x in meant}})
            return self.outcome
        pending = self.status()
        if self.answer("keep", self.keep):
            self.untouched("keep", meant, may=self.moved())
            if not at_first <= self.status() <= pending:
                self.outcome.problems.append(f"status after keep: {sorted(self.status() ^ at_first)[:3]}")
            if self.answer("restore", self.restore):
                self.restored(base, at_first, entries)
        return self.outcome

    def restored(self, base: Tree, at_first: set[bytes], entries: bytes) -> None:
        self.as_before("restore", base, may=self.moved())
        if self.status() != at_first or self.git("ls-files", "-s", "-z") != entries:
            self.outcome.problems.append(f"status after restore: {sorted(self.status() ^ at_first)[:3]}")
        if self.git("rev-parse", "HEAD^{tree}") != self.git("rev-parse", f"{self.baseline}^{{tree}}"):
            self.outcome.problems.append("the restoring commit has another tree than the baseline")
        self.git("merge-base", "--is-ancestor", self.baseline, "HEAD")

    def as_before(self, step: str, want: Tree, *, may: tuple[bytes, ...] = ()) -> None:
        if self.case.name == "filemode_false":  # Git is told to ignore modes here
            want = {**want, b"repo/agent.py": content(self.folder)[b"repo/agent.py"]}
        self.untouched(step, want, may=may)


def _rules() -> tuple[Any, Any]:
    from storage.schema.assessments import EvaluationSpec, Judger

    spec = {"boundary": "the agent", "denominator_rule": "all", "digest": DIGEST}
    dimensions = {"dimensions": ("correctness",), "dimension_rules": SPEC["dimension_rules"]}
    return (
        EvaluationSpec.model_validate({"id": "spec-1-test", "version": "1", **dimensions, **spec}),
        Judger(id="judger-1-test", version="1", digest=DIGEST),
    )


def take(case: Case, end: str, folder: str) -> Outcome:
    """Builds a case below `folder` and takes it to `end`, which is keep (and back to the baseline) or reject."""
    given = {"HOME": os.path.join(folder, "case")}
    if case.mid and case.mid.after == "env":
        given |= dict(word.split("=", 1) for word in shlex.split(case.mid.shell))
    walk = Walk(case, folder)
    with mock.patch.dict(os.environ, given):
        outcome = walk.go(end)
    if foreign := walk.marks() - walk.made:
        outcome.problems.append(f"code ran: {sorted(foreign)}")
    return outcome
