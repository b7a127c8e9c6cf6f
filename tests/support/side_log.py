"""A target whose agent keeps its own log of how often it ran for which slot, so that nothing has to believe ATK."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from storage.schema.batches import Batch
from storage.schema.rounds import Round
from tests.support.projects import Target, call_of
from tests.support.rounds import DIGEST, store

AGENT = """\
echo "$2 $3" >> "$1/log"
[ -e "$1/slow" ] && sleep 0.05
[ -e "$1/infra-$2" ] && exit 75
[ -e "$1/litter" ] && echo x > litter.txt
while [ -e "$1/hold-$2" ]; do sleep 0.02; done
[ -e "$1/cost" ] && echo '{"cost": 2.5}' > "$4/metrics.json"
echo billing
"""
"""Notes that it ran; then fails for infrastructure, litters, waits or costs, as files beside its log say."""


class Logged(Target):
    """The target, its notes beside it, and what is often asked of both."""

    def __init__(self, folder: Any, cases: int = 4, **settings: Any) -> None:
        super().__init__(os.path.join(str(folder), "target"), initialize=False)
        self.notes = os.path.join(str(folder), "notes")
        os.mkdir(self.notes)
        self.write("agent.sh", AGENT)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "The agent with a log")
        self.case_ids = [f"c{n}" for n in range(cases)]
        self.write_cases([(case_id, "text", "billing") for case_id in self.case_ids])
        command = ["sh", "agent.sh", self.notes, "{case_id}", "{repeat_index}", "{output_dir}"]
        usual = {"command": command, "components": [], "infrastructure_exit_codes": [75]}
        self.initialize(**{k: v for k, v in {**usual, **settings}.items() if v is not None})
        self.dataset_id = self.store_cases()
        self.round_id = ""

    def note(self, *names: str) -> None:
        for name in names:
            with open(os.path.join(self.notes, name), "w", encoding="utf-8"):
                pass

    def forget(self, *names: str) -> None:
        for name in names:
            os.unlink(os.path.join(self.notes, name))

    @property
    def ran(self) -> Counter[tuple[str, int]]:
        """How often the agent ran for each Case and repeat, as it says itself."""
        path = os.path.join(self.notes, "log")
        if not os.path.exists(path):
            return Counter()
        with open(path, encoding="utf-8") as file:
            return Counter((line.split()[0], int(line.split()[1])) for line in file)

    def head_run(self, **arguments: Any) -> Any:
        return self.call("run_evaluation", **{"revision_commit": self.head, "wait_seconds": 100, **arguments})

    def round_run(self, **arguments: Any) -> Any:
        return self.call("run_evaluation", **{"round_id": self.round_id, "wait_seconds": 100, **arguments})

    def follow(self, **arguments: Any) -> Any:
        """Continues or retries a batch."""
        return self.call("run_evaluation", **{"wait_seconds": 100, **arguments})

    def open_round(self, **plan: Any) -> str:
        """Opens and freezes a Round over all Cases. Returns the baseline's Revision."""
        from storage.schema.assessments import EvaluationSpec, Judger

        spec = EvaluationSpec(
            id="spec-1-test",
            version="1",
            boundary="the agent",
            dimensions=("correctness",),
            dimension_rules={"correctness": "equal"},
            denominator_rule="all",
            digest=DIGEST,
        )
        store(self, spec, Judger(id="judger-1-test", version="1", digest=DIGEST))
        self.round_id = str(self.call("create_round").round_id)
        issue = {"id": "i", "symptom": "s", "hypothesis": "h", "case_ids": [self.case_ids[-1]]}
        self.call("store_diagnosis", round_id=self.round_id, issues=[issue])
        usual = {"repeatability": "deterministic", "spec_id": spec.id, "judger_id": "judger-1-test"}
        self.call("freeze_round", round_id=self.round_id, plan={**usual, **plan})
        return self.round.baseline_revision_id

    @property
    def round(self) -> Round:
        return self.state.get(Round, self.round_id)

    def batch(self, batch_id: str) -> Batch:
        return self.state.get(Batch, batch_id)

    def records(self, batch_id: str) -> list[dict[str, Any]]:
        """All Records of a batch."""
        from storage import contents

        return list(contents.raw_records(self.project, self.state, batch_id))

    def change(self, *records: Any) -> None:
        """Puts records into the store as they are."""
        store(self, *records)

    def settle(self) -> None:
        """Seals what a dead server left, as the next call of anybody does."""
        self.project.settle(call_of("settle"))
