"""A whole Round on real runs, a call at a time, and the real server and inspector as processes: for tests of faults.

The agent looks words up in its prompt, as the one of `tests.support.projects` does; a prompt may lie in either of two
places, so that it can be moved.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from operations.tuning import budget
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import Revision, Round
from storage.schema.validations import Validation
from tests.support.projects import Target

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_SECONDS = 120
"""A bound on what is broken, not a measurement."""

AGENT = """\
import os, sys

text = open(sys.argv[1], encoding="utf-8").read().lower()
where = next((p for p in ("notes/prompt.txt", "prompt.txt") if os.path.exists(p)), None)
for line in open(where, encoding="utf-8") if where else ["e -> no prompt"]:
    word, _, queue = line.strip().partition(" -> ")
    if word and word in text:
        print(queue)
        break
else:
    print("other")
"""

PROMPT = "invoice -> billing\nbill -> billing\npayment -> billing\ncrash -> technical\nbug -> technical\n"
CASES = (
    ("invoice-1", "My invoice is wrong", "billing"),
    ("crash-1", "It did crash again", "technical"),
    ("refund-1", "I want a refund", "billing"),
    ("login-1", "I cannot login", "technical"),
)
"""The agent of `PROMPT` fails the last two."""
REFUNDS = PROMPT + "refund -> billing\n"
ALL = REFUNDS + "login -> technical\n"

SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the output is the expected queue"}}
PYTHON = [sys.executable, "-S", "-E"]
ISSUES = (("refunds", ["refund-1"]), ("logins", ["login-1"]))


class Story:
    """A target with Cases, and one Round on it."""

    def __init__(self, folder, *, agent=AGENT, cases=CASES, command=None, files=(), **settings):
        self.target = Target(os.path.join(str(folder), "target"), initialize=False)
        self.target.write("agent.py", agent)
        self.target.write("prompt.txt", PROMPT)
        for name, content in files:
            self.target.write(name, content)
        self.target.git("add", ".")
        self.target.git("commit", "-q", "-m", "The agent of the story")
        self.target.write_cases(cases)
        self.target.initialize(command=command or [*PYTHON, "agent.py", "{input_file}"], **settings)
        self.dataset_id = self.target.store_cases()
        self.round_id = ""
        self.baseline = ""
        self.issues = {}
        self.judged_by = {}

    def call(self, name, **arguments):
        return self.target.call(name, **arguments)

    def evaluate_head(self, **arguments):
        """Runs what HEAD is, outside of any Round."""
        given = {"wait_seconds": PATIENCE_SECONDS, "concurrency": 2, **arguments}
        return self.call("run_evaluation", dataset_id=self.dataset_id, revision_commit=self.target.head, **given)

    def open(self, issues=ISSUES, **plan):
        """Brings a Round to the point where both sides are to be run. Its rule counts, once a Case."""
        seen = self.evaluate_head()
        self.assess(seen.batch_id)
        made = self.call("create_round", batch_ids=[seen.batch_id])
        self.round_id, self.baseline = made.round_id, made.revision_id
        given = [
            {"id": name, "symptom": f"{name} are misfiled", "hypothesis": "no line names them", "case_ids": cases}
            for name, cases in issues
        ]
        self.issues = self.call("store_diagnosis", round_id=self.round_id, issues=given).issue_ids
        usual = {"repeatability": "deterministic", **self.judged_by, "budget": {"candidates": 3, "executions": 60}}
        self.call("freeze_round", round_id=self.round_id, plan={**usual, **plan})
        return self

    def run(self, revision_id=None, **arguments):
        """Runs a Revision of the Round, the baseline unless told."""
        given = {"wait_seconds": PATIENCE_SECONDS, **arguments}
        return self.call("run_evaluation", round_id=self.round_id, revision_id=revision_id or self.baseline, **given)

    def assess(self, batch_id, **arguments):
        """Lets the server judge a batch by its rule. Returns the assessment's id."""
        how = self.judged_by or {"evaluation_spec": SPEC, "judger": {"method": "exact"}}
        made = self.call("store_assessment", batch_id=batch_id, **how, **arguments)
        self.judged_by = {"spec_id": made.spec_id, "judger_id": made.judger_id}
        return made.assessment_id

    def side(self, revision_id=None, **arguments):
        """Runs and judges one side. Returns its assessment's id."""
        return self.assess(self.run(revision_id, **arguments).batch_id)

    def draft(self, issue="refunds", **arguments):
        made = self.call("prepare_candidate", round_id=self.round_id, primary_issue_id=self.issues[issue], **arguments)
        return made.candidate_id

    def seal(self, candidate_id):
        return self.call("seal_candidate", round_id=self.round_id, candidate_id=candidate_id)

    def compare(self, left, right, **arguments):
        return self.call(
            "compare_and_gate",
            round_id=self.round_id,
            left_assessment_id=left,
            right_assessment_id=right,
            **arguments,
        )

    def decide(self, candidate_id, action, **arguments):
        return self.call(
            "decide_candidate",
            round_id=self.round_id,
            candidate_id=candidate_id,
            action=action,
            reason="as the test says",
            **arguments,
        )

    def keep(self, edit, issue="refunds"):
        """Runs the parent, drafts, edits, seals, runs, judges, compares and keeps. Returns the candidate's id."""
        left = self.side(self.round.current_revision_id)
        candidate_id = self.draft(issue)
        edit()
        right = self.side(self.seal(candidate_id).revision_id)
        verdict = self.compare(left, right)
        assert verdict.result == "pass", verdict.summary
        self.decide(candidate_id, "keep")
        return candidate_id

    # ---- what is stored ------------------------------------------------------------------------------------

    @property
    def round(self):
        return self.target.state.get(Round, self.round_id)

    @property
    def account(self):
        value = self.round
        return budget.account(value, value.plan, self.target.state.all(Batch))

    def batch(self, batch_id):
        return self.target.state.get(Batch, batch_id)

    def candidate(self, candidate_id):
        return self.target.state.get(Candidate, candidate_id)

    def revision(self, revision_id):
        return self.target.state.get(Revision, revision_id)

    def validations(self):
        return self.target.state.all(Validation)

    def outputs(self, batch_id):
        """Case id → what the agent printed, without the line's end."""
        found = self.call("read_record", record_id=batch_id, field="records").value
        return {r["case_id"]: (r["output"] or "").removesuffix("\n") for r in found}

    def tree(self, commit="HEAD"):
        return self.target.git("rev-parse", f"{commit}^{{tree}}")

    def dirty(self):
        return self.target.git("status", "--porcelain", "--untracked-files=all")


def atk(*arguments, stdin=None, cwd=None, **settings):
    """Runs the real `atk`. Returns the finished process with its texts."""
    return subprocess.run(
        [sys.executable, "-m", "atk_mcp.inspector", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=cwd,
        env=environment(),
        check=False,
        **settings,
    )


def environment():
    """What the server and the inspector are started with, so that they find this checkout from any folder."""
    return {**os.environ, "PYTHONPATH": ROOT, "ATK_STRICT_RESULTS": "1"}


class Wire:
    """The real server as a process, spoken to line by line, so that a test may kill it or leave a call open."""

    def __init__(self, cwd, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atk_mcp", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment(),
            bufsize=0,
        )
        self.number = 0
        self.answers = {}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.send({"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"})
        self.answer(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def send(self, *messages):
        self.process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in messages))

    def begin(self, tool, **arguments):
        """Sends a call and returns its number without waiting for the answer."""
        self.number += 1
        parameters = {"name": tool, "arguments": arguments}
        self.send({"id": self.number, "method": "tools/call", "params": parameters})
        return self.number

    def answer(self, number):
        """Returns the answer to a call, keeping those to others for later."""
        while number not in self.answers:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read().decode()
            message = json.loads(line)
            if "method" not in message:
                self.answers[message["id"]] = message
        return self.answers.pop(number)

    def call(self, tool, **arguments):
        """Returns the result of a call, as the client gets it."""
        return self.answer(self.begin(tool, **arguments))["result"]

    def done(self, tool, **arguments):
        """Returns the structured result of a call that has to succeed."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result["content"]
        return result["structuredContent"]


def until(condition, what):
    """Returns the first true value of `condition`."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.02)
    return value


def alive(pid):
    """Whether a process lives; one that is dead and not collected does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])
