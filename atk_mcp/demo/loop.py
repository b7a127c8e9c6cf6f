"""Drives the whole loop over one target: evidence, diagnosis, a frozen plan, two candidates, the final validation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from atk_mcp.demo.diagnosing import (
    Attempt,
    Problem,
    add_comment,
    add_greedy_rule,
    add_word,
    find_problems,
    mostly_failing,
)
from atk_mcp.demo.session import Answer, DemoStopped, Session
from atk_mcp.demo.story import Commit, Fact, Story

RULES = "rules.txt"
DIMENSION = "queue"
REPEATS = 5
CONCURRENCY = 3

_SPEC = {
    "boundary": "the agent's answer to one ticket",
    "dimensions": [DIMENSION],
    "dimension_rules": {DIMENSION: "the answer is the expected queue"},
}
_QUESTIONS = {"improvement": "targets improved?", "harm": "protected Cases harmed?", "non_inferiority": "no worse?"}


@dataclass(frozen=True)
class Edit:
    """What a candidate does to the rules, and how it is told."""

    told: str
    message: str
    change: Callable[[str, Problem], str]


_HELPFUL = Edit("adds the word {word} to the queue {queue}", "Let {word} lead to {queue}", add_word)
_NO_OP = Edit("adds a comment about {word} and changes no rule", "Remark on {word}", add_comment)
_GREEDY = Edit(
    "puts a greedy line for {word} above all others", "Send {word}, not and cannot to {queue}", add_greedy_rule
)


class Loop:
    """One run through the loop. What it knows at each step came in an answer of the server."""

    def __init__(self, session: Session, story: Story, root: str, cases: str) -> None:
        """Takes a session with a server whose working folder is `root`, and the file of Cases there."""
        self.session = session
        self.story = story
        self.root = root
        self.cases = cases
        self.judge: dict[str, object] = {"evaluation_spec": _SPEC, "judger": {"method": "exact"}}
        self.round_id = ""
        self.baseline_commit = ""
        self.current = ""
        """The Revision that the next candidate builds on."""
        self.sides: dict[str, str] = {}
        """Revision id → assessment of a fresh run of it over every Case of the plan."""
        self.kept: list[str] = []

    async def play(self, *, no_op_edit: bool) -> None:
        """Plays from a folder that is no project yet to a Round that is over.

        Raises:
            DemoStopped: An operation refused or did not lead on.
        """
        self.story.chapter("Evidence: how does the agent do today?")
        dataset_id, head = await self._begin()
        batch_id, assessment_id = await self._first_evidence(dataset_id, head)
        problems = await self._problems(dataset_id, batch_id, assessment_id)
        self.story.chapter("A Round: what fails, why, and by which rule will a change be judged?")
        issues = await self._open(batch_id, assessment_id, problems)
        await self._freeze(len(issues))
        edits = [_NO_OP if no_op_edit else _HELPFUL, _GREEDY]
        for (issue_id, problem), edit in zip(issues, edits, strict=False):
            self.story.chapter(f"A candidate for {issue_id}: {edit.told.format(**_words(problem))}")
            await self._try(issue_id, problem, edit)
        self.story.chapter("The end of the Round")
        if self.kept:
            await self._validate()
        else:
            await self._close("no candidate passed the gate")

    async def _begin(self) -> tuple[str, str]:
        """Makes the folder a project and stores the Cases. Returns the dataset's id and the commit at HEAD."""
        project = await self.session.call(
            "initialize_project",
            command=[sys.executable, "-I", "-S", "agent.py", "{input_file}", "{repeat_index}", "{output_dir}"],
            components=[
                {"component_id": "prompt", "role": "prompt", "change_role": "fixed", "source_path": "prompt.txt"},
                {"component_id": "rules", "role": "config", "change_role": "variable", "source_path": RULES},
                {"component_id": "code", "role": "agent_code", "change_role": "fixed", "source_path": "agent.py"},
            ],
            external_effects=[],
            allowed_paths=[RULES],
            protected_paths=["agent.py", "prompt.txt"],
            timeout_seconds=30,
        )
        self.story.tell("The folder is an ATK project; candidates may change rules.txt only.", project["project_id"])
        dataset = await self.session.call("store_dataset", source=self.cases)
        found = dataset["dataset_id"]
        counts = dataset["usage_counts"]
        self.story.tell(
            "{source} holds {cases} Cases: {optimization} for optimization, {protection} for protection.",
            found,
            source=Fact(self.cases, found, "source_name"),
            cases=Fact(dataset["case_count"], found, "case_count"),
            optimization=Fact(counts["optimization"], found, "usage_counts.optimization"),
            protection=Fact(counts["protection"], found, "usage_counts.protection"),
        )
        return found, project["head"]

    async def _first_evidence(self, dataset_id: str, head: str) -> tuple[str, str]:
        run = await self.session.call(
            "run_evaluation",
            dataset_id=dataset_id,
            revision_commit=head,
            repeats=REPEATS,
            concurrency=CONCURRENCY,
        )
        assessment_id = await self._judged(run, "The agent as it is")
        return str(run["batch_id"]), assessment_id

    async def _judged(self, run: Answer, whose: str) -> str:
        """Waits for a run, has the server's rule judge it, and tells how many attempts passed."""
        run = await self.session.finished(run)
        answer = await self.session.follow(run, "store_assessment", **self.judge)
        self.judge = {"spec_id": answer["spec_id"], "judger_id": answer["judger_id"]}
        found, batch_id = answer["assessment_id"], answer["batch_id"]
        self.story.tell(
            "{whose}: {passed} of {attempts} attempts pass.",
            batch_id,
            found,
            whose=whose,
            passed=Fact(answer["counts"][DIMENSION].get("pass", 0), found, f"counts.{DIMENSION}.pass"),
            attempts=Fact(answer["row_count"], found, "row_count"),
        )
        return str(found)

    async def _problems(self, dataset_id: str, batch_id: str, assessment_id: str) -> list[Problem]:
        """Reads the judged attempts and the Cases, and finds what the failing ones share."""
        case_of = {record["id"]: record["case_id"] for record in await self.session.read(batch_id, "records")}
        rows = await self.session.read(assessment_id, "rows")
        attempts = [Attempt(r["record_id"], case_of[r["record_id"]], r["verdict"] == "pass") for r in rows]
        cases = await self.session.read(dataset_id, "cases")
        texts, queues = ({case["id"]: case[name] for case in cases} for name in ("input", "expected"))
        problems = find_problems(mostly_failing(attempts), texts, queues)
        if not problems:
            raise DemoStopped(
                "no Case fails in most of its attempts, so there is nothing to improve; try another --seed"
            )
        return problems

    async def _open(self, batch_id: str, assessment_id: str, problems: list[Problem]) -> list[tuple[str, Problem]]:
        """Creates the Round and stores one Issue for each problem. Returns the Issues' ids with their problems."""
        opened = await self.session.call("create_round", batch_ids=[batch_id], assessment_ids=[assessment_id])
        self.round_id, self.current = opened["round_id"], opened["revision_id"]
        self.baseline_commit = opened["baseline_commit"]
        self.story.tell(
            "A Round is open; its baseline B0 is the commit {commit}.",
            self.round_id,
            self.current,
            commit=Commit(self.baseline_commit, self.round_id, "baseline_commit"),
        )
        stored = await self.session.follow(opened, "store_diagnosis", issues=[_issue(batch_id, p) for p in problems])
        issues = list(zip(stored["issue_ids"].values(), problems, strict=True))
        for issue_id, _ in issues:
            issue = await self.session.read(issue_id)
            self.story.tell(
                "Issue: {symptom} Targets: {cases}.",
                issue_id,
                symptom=Fact(issue["symptom"], issue_id, "symptom"),
                cases=Fact(issue["case_ids"], issue_id, "case_ids"),
            )
        return issues

    async def _freeze(self, candidates: int) -> None:
        """Previews the plan, freezes it with a budget for two fresh sides a candidate, and runs B0 under it."""
        preview = await self.session.call("freeze_round", round_id=self.round_id, preview=True)
        sizes = preview["executions"]
        plan = {
            "repeatability": "stochastic",
            "repeatability_basis": "repeats of one ticket differ",
            "concurrency": CONCURRENCY,
            "budget": {
                "candidates": candidates,
                "executions": sizes["reserve"] + 2 * candidates * sizes["incremental_side"],
            },
        }
        frozen = await self.session.follow(preview, "freeze_round", plan=plan)
        shown, where = frozen["plan"], self.round_id
        self.story.tell(
            "The plan is frozen: rule {rule}, {repeats} repeats, margin {margin}, alpha {alpha}, a budget of "
            "{executions} attempts and {candidates} candidates.",
            where,
            rule=Fact(shown["decision_rule"], where, "plan.decision_rule"),
            repeats=Fact(shown["incremental_repeats"], where, "plan.incremental_repeats"),
            margin=Fact(shown["margin"], where, "plan.margin"),
            alpha=Fact(shown["alpha"], where, "plan.alpha"),
            executions=Fact(shown["budget"]["executions"], where, "plan.budget.executions"),
            candidates=Fact(shown["budget"]["candidates"], where, "plan.budget.candidates"),
        )
        self.story.tell(
            "Protected is every Case that no Issue names, whatever the file says; a kept candidate's targets join them."
        )
        self.story.tell(
            "Each look at a target is tested at a part of alpha, the first at half; the end at alpha itself."
        )
        run = await self.session.follow(frozen, "run_evaluation")
        self.sides[self.current] = await self._judged(run, "B0, run anew under the plan")

    async def _try(self, issue_id: str, problem: Problem, edit: Edit) -> None:
        """Takes one candidate from its draft to its decision, which is the gate's."""
        if self.current not in self.sides:
            run = await self.session.call("run_evaluation", round_id=self.round_id, revision_id=self.current)
            self.sides[self.current] = await self._judged(run, "Its parent, run anew")
        parent = self.current
        draft = await self.session.call(
            "prepare_candidate", round_id=self.round_id, primary_issue_id=issue_id, paths=[RULES]
        )
        self._edit(edit, problem)
        sealed = await self.session.follow(draft, "seal_candidate")
        candidate_id = sealed["candidate_id"]
        run = await self.session.follow(sealed, "run_evaluation")
        assessment_id = await self._judged(run, "The candidate")
        compared = await self.session.call(
            "compare_and_gate",
            round_id=self.round_id,
            left_assessment_id=self.sides[parent],
            right_assessment_id=assessment_id,
        )
        await self._tell_validation(compared)
        decided = await self.session.follow(
            compared,
            "decide_candidate",
            action="keep" if compared["result"] == "pass" else "reject",
            reason=f"the gate says {compared['result']}",
            message=edit.message.format(**_words(problem)),
        )
        self.current = decided["revision_id"]
        if decided["action"] == "keep":
            self.kept.append(candidate_id)
            self.story.tell(
                "Kept, as the commit {commit} on your branch.",
                candidate_id,
                decided["decision_id"],
                commit=Commit(decided["commit"], decided["decision_id"], "after_commit"),
            )
        else:
            self.story.tell(
                "Decided: {action}. Its parent's files are back; HEAD is still {commit}.",
                candidate_id,
                decided["decision_id"],
                action=Fact(decided["action"], decided["decision_id"], "action"),
                commit=Commit(decided["commit"], decided["decision_id"], "after_commit"),
            )

    def _edit(self, edit: Edit, problem: Problem) -> None:
        path = os.path.join(self.root, RULES)
        with open(path, encoding="utf-8") as file:
            rules = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(edit.change(rules, problem))

    async def _tell_validation(self, compared: Answer) -> None:
        """Tells a comparison's result, its first reason, and the answers to its questions."""
        found = compared["validation_id"]
        reasons = await self.session.read(found, "reasons")
        self.story.tell(
            "The gate says {result}: {reason}",
            found,
            result=Fact(compared["result"], found, "result"),
            reason=Fact(reasons[0], found, "reasons.0"),
        )
        for n, asked in enumerate(await self.session.read(found, "statistics.questions")):
            if asked["question"] not in _QUESTIONS:
                continue
            at = f"statistics.questions.{n}"
            figures = {name: asked[name] for name in ("n", "difference", "p", "lower") if asked[name] is not None}
            self.story.tell(
                f"  {_QUESTIONS[asked['question']]:24}{{answer}}; "
                + ", ".join(f"{name.replace('lower', 'lower bound')} {{{name}}}" for name in figures),
                answer=Fact(asked["answer"], found, f"{at}.answer"),
                **{name: Fact(value, found, f"{at}.{name}") for name, value in figures.items()},
            )

    async def _validate(self) -> None:
        """Runs both final sides, B0 replayed, and ends the Round as their comparison says."""
        facts = (await self.session.call("get_status", round_id=self.round_id))["round"]
        both = []
        for revision_id, whose in (
            (facts["baseline_revision_id"], "B0 again, for the final validation"),
            (facts["current_revision_id"], "What was kept, for the final validation"),
        ):
            run = await self.session.call(
                "run_evaluation", round_id=self.round_id, revision_id=revision_id, phase="final"
            )
            both.append(await self._judged(run, whose))
        compared = await self.session.call(
            "compare_and_gate",
            round_id=self.round_id,
            mode="final",
            left_assessment_id=both[0],
            right_assessment_id=both[1],
        )
        await self._tell_validation(compared)
        if compared["result"] == "pass":
            ended = await self.session.follow(compared, "finish_round", reason="the final validation passed")
            await self._tell_end(ended)
            return
        reason = f"the final validation says {compared['result']}"
        rolled = await self.session.call(
            "rollback_to", round_id=self.round_id, target_commit=self.baseline_commit, reason=reason
        )
        self.story.tell(
            "What was kept is taken back by the commit {commit}.",
            rolled["decision_id"],
            commit=Commit(rolled["commit"], rolled["decision_id"], "after_commit"),
        )
        await self._close(reason)

    async def _close(self, reason: str) -> None:
        ended = await self.session.call(
            "finish_round", round_id=self.round_id, action="close_without_adoption", reason=reason
        )
        await self._tell_end(ended)

    async def _tell_end(self, ended: Answer) -> None:
        self.story.tell(
            "The Round is {status}; candidates kept: {kept}.",
            self.round_id,
            ended["decision_id"],
            status=Fact(ended["status"], self.round_id, "status"),
            kept=Fact(ended["accepted_candidate_ids"], self.round_id, "accepted_candidate_ids")
            if ended["accepted_candidate_ids"]
            else "none",
        )


def _words(problem: Problem) -> dict[str, str]:
    return {"word": problem.word, "queue": problem.queue}


def _issue(batch_id: str, problem: Problem) -> dict[str, object]:
    """Returns what the client stores about a problem: what it saw, and what it takes for the cause."""
    return {
        "id": f"{problem.word}-not-{problem.queue}",
        "symptom": f"Tickets with the word {problem.word} do not reach the queue {problem.queue}.",
        "hypothesis": f"No line of {RULES} leads from {problem.word} to {problem.queue}, so the agent guesses.",
        "case_ids": list(problem.case_ids),
        "evidence_refs": [{"batch_id": batch_id, "evidence_id": found} for found in problem.record_ids],
        "competing_explanations": ["The tickets are ambiguous.", "The agent does not follow its rules."],
        "intervention_layer": "prompt",
        "responsible_component": "rules",
    }
