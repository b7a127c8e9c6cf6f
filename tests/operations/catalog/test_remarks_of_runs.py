"""A batch says when its repeats do not look like runs of their own."""

import sys

import pytest

from storage.schema.batches import Batch
from tests.support.projects import Target
from tests.support.side_log import AGENT, Logged

IDENTIFIED = (
    "import json, os, sys; print(os.getpid()); "
    "open(sys.argv[1], 'w').write(json.dumps({'type': 'answer', 'response_id': 'resp_1'}) + chr(10))"
)
OWN = "import os; print(os.urandom(800).hex())"
SENTENCE = "The invoice belongs to the billing desk, since it asks for money that was paid twice. "


@pytest.mark.parametrize(("agent", "asks", "said"), [(IDENTIFIED, ("{events_file}",), True), (OWN, (), False)])
def test_one_response_id_in_several_records_is_said_of_the_batch(tmp_path, agent, asks, said):
    target = Target(tmp_path / "target", initialize=False)
    target.initialize(command=[sys.executable, "-c", agent, *asks], components=[])
    target.store_cases()
    answer = target.call("run_evaluation", revision_commit=target.head, repeats=3, wait_seconds=200)
    batch = target.state.get(Batch, answer.batch_id)
    assert (batch.status, list(batch.notes)) == ("sealed", answer.notes)
    assert any("a cache answered" in note for note in answer.notes) == said


@pytest.mark.parametrize(("repeatability", "said"), [("stochastic", True), ("deterministic", False)])
def test_identical_long_answers_are_said_of_a_batch_of_a_stochastic_agent(tmp_path, repeatability, said):
    target = Logged(tmp_path, cases=6)
    target.write("agent.sh", AGENT.replace("echo billing", f"echo '{SENTENCE * 60}'"))
    target.git("commit", "-q", "-am", "An agent behind a cache")
    basis = {"repeatability_basis": "it samples"}
    target.open_round(repeatability=repeatability, **basis, budget={"executions": 200})
    batch = target.batch(target.round_run().batch_id)
    assert batch.repeats > 1 or not said
    assert any("identical" in note or "same" in note for note in batch.notes) == said, batch.notes
