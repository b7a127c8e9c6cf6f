"""One Round, built once a session and kept at each of its stages; a test works on a copy of the stage that it needs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from typing import Any

from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.schema.rounds import Round
from tests.support.projects import FIX, Target

AGENT = """\
text=$(cat "$1")
while read -r word arrow queue; do
  case "$text" in *"$word"*) echo "$queue"; exit 0;; esac
done < prompt.txt
echo other
"""
"""The agent of `tests.support.projects` as a shell script, which starts at once."""

SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the queue is the expected one"}}
EXACT = {"method": "exact"}
AUTHORIZED = {"source": "user", "reason": "I want to try it", "risk": "it may file tickets wrongly"}
Ids = dict[str, Any]


class Staged(Target):
    """A target at a stage. `ids` names what has been made on the way."""

    def __init__(self, root: str, ids: Ids) -> None:  # no super().__init__: the files are there already
        self.root = os.path.realpath(root)
        self.ids = ids

    def __getattr__(self, name: str) -> Any:
        try:
            return self.ids[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def round(self) -> Round:
        return self.state.get(Round, self.ids["round_id"])

    def refusal(self, operation_name: str, **arguments: Any) -> AtkError:
        """Returns the error that a call meets; none is a failure of the test."""
        try:
            answer = invoke(all_operations()[operation_name], {"project_path": self.root, **arguments})
        except AtkError as error:
            return error
        raise AssertionError(f"{operation_name} was not refused: {answer.message}")

    def run(self, revision_id: str, phase: str = "incremental") -> tuple[str, str]:
        """Runs a Revision for the Round and judges it. Returns the batch's and the assessment's id."""
        batch = self.call(
            "run_evaluation", round_id=self.round_id, revision_id=revision_id, phase=phase, wait_seconds=200
        )
        assert batch.status == "sealed", batch
        return str(batch.batch_id), self.judge(batch.batch_id)

    def judge(self, batch_id: str, **more: Any) -> str:
        judged = {"spec_id": self.spec_id, "judger_id": self.judger_id}
        return str(self.call("store_assessment", batch_id=batch_id, **judged, **more).assessment_id)

    def compare(self, mode: str = "incremental", **more: Any) -> Any:
        sides = ("left", "right") if mode == "incremental" else ("final_left", "final_right")
        both = {
            f"{k}_assessment_id": self.ids[f"{side}_assessment_id"]
            for k, side in zip(("left", "right"), sides, strict=True)
        }
        return self.call("compare_and_gate", **{"round_id": self.round_id, "mode": mode, **both, **more})

    def seal(self) -> None:
        made = self.call("seal_candidate", round_id=self.round_id, candidate_id=self.candidate_id)
        self.ids |= {"revision_id": made.revision_id, "sealed_commit": made.sealed_commit}

    def decide(self, action: str, **more: Any) -> Any:
        named = {"round_id": self.round_id, "candidate_id": self.candidate_id, "reason": "because"}
        return self.call("decide_candidate", **{**named, "action": action, **more})

    def facts(self) -> dict[str, Any]:
        """Everything that a refused call has to leave as it is."""
        return {
            "journal": self.state.position if os.path.isdir(self.path(".atk/journal")) else None,
            "worktree": tree_of(self.root, skip=(".git", ".atk")),
            "index": _bytes(self.path(".git/index")),
            "refs": {**tree_of(self.path(".git/refs")), "HEAD": _bytes(self.path(".git/HEAD"))},
            "store": _durable(tree_of(self.path(".atk"))),
        }

    def changed_since(self, before: dict[str, Any]) -> list[str]:
        """Names what is not as it was."""
        now = self.facts()
        found = [name for name in now if not isinstance(now[name], dict) and now[name] != before[name]]
        for name in ("worktree", "refs", "store"):
            was, is_ = before[name], now[name]
            found += [f"{name}: {path}" for path in {**was, **is_} if was.get(path, 0) != is_.get(path, 0)]
        return found


def _durable(store: dict[str, Any]) -> dict[str, Any]:
    """What the journal names and the journal itself: not folders, views, and who holds the lock."""
    return {k: v for k, v in store.items() if v is not None and not k.endswith(".json") and k != "lock"}


def _bytes(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def tree_of(top: str, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns each path below `top` with its content, its link or None for a folder, and its mode."""
    found: dict[str, Any] = {}
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if not (folder == top and name in skip)]
        for name in (*names, *files):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, top)
            if os.path.islink(path):
                found[relative] = os.readlink(path)
            elif os.path.isfile(path):
                found[relative] = (os.stat(path).st_mode, _bytes(path))
            else:
                found[relative] = None
    return found


def _blank(made: Staged) -> None:
    Target(made.root, initialize=False)
    made.write("agent.sh", AGENT)
    made.git("rm", "-q", "agent.py")
    made.git("add", ".")
    made.git("commit", "-q", "--amend", "-m", "The agent")
    made.ids["commit"] = made.head


def _initialized(made: Staged) -> None:
    made.initialize(
        command=["sh", "agent.sh", "{input_file}"],
        components=[
            {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
        ],
        protected_paths=["agent.sh"],
    )


def _stored(made: Staged) -> None:
    made.ids["dataset_id"] = made.store_cases()


def _evaluated(made: Staged) -> None:
    batch = made.call("run_evaluation", revision_commit=made.head, wait_seconds=200)
    assert batch.status == "sealed"
    made.ids |= {"batch_id": batch.batch_id, "head_revision_id": batch.revision_id}


def _assessed(made: Staged) -> None:
    found = made.call("store_assessment", batch_id=made.batch_id, evaluation_spec=SPEC, judger=EXACT)
    made.ids |= {"assessment_id": found.assessment_id, "spec_id": found.spec_id, "judger_id": found.judger_id}


def _opened(made: Staged) -> None:
    found = made.call("create_round", batch_ids=[made.batch_id], assessment_ids=[made.assessment_id])
    made.ids |= {"round_id": found.round_id, "b0": found.revision_id}


def issue(name: str, *case_ids: str, **more: Any) -> dict[str, Any]:
    """Returns an Issue as a request has it."""
    return {"id": name, "symptom": "filed wrongly", "hypothesis": "no rule", "case_ids": list(case_ids), **more}


def _diagnosed(made: Staged) -> None:
    issues = [issue("refunds", "refund-1", "refund-2"), issue("crashes", "crash-1")]
    found = made.call("store_diagnosis", round_id=made.round_id, issues=issues).issue_ids
    made.ids |= {"issue_id": found["refunds"], "other_issue_id": found["crashes"]}


def _frozen(made: Staged) -> None:
    made.call("freeze_round", round_id=made.round_id, plan={"repeatability": "deterministic"})


def _drafted(made: Staged) -> None:
    found = made.call("prepare_candidate", round_id=made.round_id, primary_issue_id=made.issue_id)
    made.ids["candidate_id"] = found.candidate_id
    made.write("prompt.txt", FIX)


def _sealed(made: Staged) -> None:
    made.seal()


def _judged(made: Staged) -> None:
    made.ids["left_batch_id"], made.ids["left_assessment_id"] = made.run(made.b0)
    made.ids["right_batch_id"], made.ids["right_assessment_id"] = made.run(made.revision_id)


def _compared(made: Staged) -> None:
    found = made.compare()
    assert found.result == "pass", found
    made.ids["validation_id"] = found.validation_id


def _kept(made: Staged) -> None:
    made.ids["kept_commit"] = made.decide("keep").commit


def _validated(made: Staged) -> None:
    made.ids["final_left_batch_id"], made.ids["final_left_assessment_id"] = made.run(made.b0, "final")
    made.ids["final_right_batch_id"], made.ids["final_right_assessment_id"] = made.run(made.revision_id, "final")
    found = made.compare("final")
    assert found.result == "pass", found
    made.ids["final_validation_id"] = found.validation_id


def _completed(made: Staged) -> None:
    made.call("finish_round", round_id=made.round_id, action="complete", reason="it passed")


LADDER: dict[str, Callable[[Staged], None]] = {
    "blank": _blank,
    "initialized": _initialized,
    "stored": _stored,
    "evaluated": _evaluated,
    "assessed": _assessed,
    "opened": _opened,
    "diagnosed": _diagnosed,
    "frozen": _frozen,
    "drafted": _drafted,
    "sealed": _sealed,
    "judged": _judged,
    "compared": _compared,
    "kept": _kept,
    "validated": _validated,
    "completed": _completed,
}


class Stages:
    """The stages that were built so far, each in a folder of its own."""

    def __init__(self, top: str) -> None:
        self._top = top

    def copy(self, stage: str, root: str) -> Staged:
        """Returns a copy of a target at `stage`, in the folder `root`."""
        source = self._built(stage)
        shutil.copytree(source, root, symlinks=True, dirs_exist_ok=True)
        with open(f"{source}.json", encoding="utf-8") as file:
            return Staged(root, json.load(file))

    def _built(self, stage: str) -> str:
        path = os.path.join(self._top, stage)
        if os.path.exists(f"{path}.json"):
            return path
        names = list(LADDER)
        before = names.index(stage) - 1
        made = self.copy(names[before], path) if before >= 0 else Staged(path, {})
        LADDER[stage](made)
        with open(f"{path}.json", "w", encoding="utf-8") as file:
            json.dump(made.ids, file)
        return path
