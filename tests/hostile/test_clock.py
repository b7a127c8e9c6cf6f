"""A clock that jumps or stands still orders nothing, and no wait follows it."""

import itertools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from operations import invocation
from operations.verification import verify
from storage import project as projects
from storage.project import Project
from storage.schema.candidates import Candidate
from storage.schema.rounds import Round
from tests.operations.catalog.stages import LADDER, Staged
from tests.support.projects import FIX, Target
from tests.support.rounds import draft, validate

ROOT = Path(__file__).parents[2]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
YEAR = timedelta(days=365)
CLOCKS = {
    "back a year and forth": lambda: (START + YEAR * step for step in itertools.cycle((0, -1, 1, -1, 0, 2))),
    "always earlier": lambda: (START - timedelta(hours=n) for n in itertools.count()),
    "standing still": lambda: itertools.repeat(START),
}

READS = re.compile(r"\btime\.time(?:_ns)?\b|\bst_[mc]time|\bgetmtime\b")
"""What compares with the time of day or of a file; writing it down is `datetime.now`."""

WALL = {
    "operations/execution/announcing.py": "whether a running import reads the same files: compared for being the same",
    "operations/importers/_streams.py": "whether a source changed while it was read: compared for being the same",
    "operations/execution/adapters/http_client.py": "a date of HTTP's as a wait, which a monotonic end bounds",
    "storage/checkpoints/locks.py": "whether a lock appeared while our own call was at it; recovery asks for no time",
    "storage/checkpoints/restoring.py": "whether a file is still the one that was read: compared for being the same",
    "storage/git/failures.py": "how old a lock is, as a person is told",
    "storage/transaction.py": "the time for locks.py",
}
"""Where the time of day or of a file is looked at but to be written down, and for what."""


@pytest.fixture(params=CLOCKS.values(), ids=list(CLOCKS))
def clock(request, monkeypatch):
    ticks = request.param()
    monkeypatch.setattr(invocation, "_now", lambda: next(ticks))
    monkeypatch.setattr(Project, "clock", lambda _: next(ticks).isoformat(timespec="microseconds"))


def sound(target):
    """Opens the project as a new process does, and makes every digest, count and Decision again."""
    projects._opened.clear()
    report = verify(target.project)
    planted = "validation-1-test.json"  # of `validate`: it names assessments that nobody made
    assert [finding for finding in report.findings if not finding.path.endswith(planted)] == []
    assert report.open_work == []
    numbers = [record["n"] for record in target.project.journal_records()]
    assert numbers == list(range(len(numbers)))


@pytest.mark.usefixtures("clock")
def test_a_round_is_made_kept_taken_back_and_closed_in_the_order_of_its_calls(tmp_path):
    target = Target(tmp_path / "target")
    first = draft(target)
    round_id = target.state.all(Round)[-1].id
    target.call("seal_candidate", round_id=round_id, candidate_id=first)
    validate(target, first)
    kept = {"round_id": round_id, "candidate_id": first, "action": "keep", "reason": "better"}
    target.call("decide_candidate", **kept, request_id="keep-once")
    again = target.call("decide_candidate", **kept, request_id="keep-once")
    assert again.commit == target.head
    assert target.read("prompt.txt") == FIX
    baseline = target.state.get(Round, round_id).baseline_commit
    target.call("rollback_to", round_id=round_id, target_commit=baseline, reason="no")
    issue_id = target.state.get(Round, round_id).issue_ids[0]
    second = target.call("prepare_candidate", round_id=round_id, primary_issue_id=issue_id).candidate_id
    target.call("cancel_draft", round_id=round_id, candidate_id=second, reason="no")
    target.call("finish_round", round_id=round_id, action="abandon", reason="enough")
    assert [candidate.id for candidate in target.state.all(Candidate)] == [first, second]
    assert target.call("get_status").message
    sound(target)


@pytest.mark.slow
@pytest.mark.parametrize("clock", [CLOCKS["back a year and forth"]], ids=["jumping"], indirect=True)
@pytest.mark.usefixtures("clock")
def test_a_whole_round_with_runs_is_sound(tmp_path):
    """The supervisors' own clock is the true one, so that even the two halves of one run disagree by years."""
    target = Staged(str(tmp_path / "target"), {})
    for build in LADDER.values():
        build(target)
    assert target.round.status == "completed"
    sound(target)


def test_only_what_is_named_here_looks_at_the_time_of_day_or_of_a_file():
    found = {}
    for top in ("atk_mcp", "operations", "storage"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if reads := READS.findall(path.read_text(encoding="utf-8")):
                found[str(path.relative_to(ROOT))] = reads
    assert set(found) == set(WALL)
