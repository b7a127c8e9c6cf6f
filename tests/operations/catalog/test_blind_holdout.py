"""Holdout Cases stay unseen until both final sides of a Round are sealed, on the wire, in the store and in the log."""

import json
import os
import shutil
import signal

import pytest

from operations import validations
from operations.verification import verify
from storage import contents
from storage.schema.batches import Batch
from storage.schema.exposures import Exposure
from storage.schema.rounds import Round
from storage.sealing import KEY_HOME
from tests.faults.story import Wire, until
from tests.operations.catalog.stages import SPEC, Staged, issue
from tests.operations.execution.test_killed_servers import children, living_in
from tests.support import holdouts


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A Round that keeps a candidate, and where its key is; built once, to be copied."""
    top = tmp_path_factory.mktemp("holdout")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_HOME, str(top / "keys"))
        made = holdouts.kept(str(top / "kept"))
        yield made


@pytest.fixture
def kept(built, tmp_path):
    shutil.copytree(built.root, tmp_path / "target", symlinks=True)
    return Staged(str(tmp_path / "target"), dict(built.ids))


@pytest.fixture
def finished(kept):
    """The target with both final sides run and judged by a rule."""
    kept.ids["final_left_batch_id"], kept.ids["final_left_assessment_id"] = kept.run(kept.b0, "final")
    kept.ids["final_right_batch_id"], kept.ids["final_right_assessment_id"] = kept.run(kept.revision_id, "final")
    return kept


class Recorded(Wire):
    """A server session of which every byte is kept, in both directions."""

    def __init__(self, cwd, tape):
        self.tape = tape
        super().__init__(cwd)
        self.process.stdout = _Heard(self.process.stdout, tape)

    def send(self, *messages):
        self.tape.append(json.dumps(messages).encode())
        super().send(*messages)


class _Heard:
    def __init__(self, stream, tape):
        self._stream, self._tape = stream, tape

    def readline(self):
        line = self._stream.readline()
        self._tape.append(line)
        return line

    def close(self):
        self._stream.close()


def ask_for_everything(server, target, batch_id):
    """Calls whatever shows something, with arguments that would show holdout contents if anything did."""
    here = {"project_path": target.root}
    for object_id in [*holdouts.ids_of(target.state), f"{target.dataset_id}/blind-1", f"{batch_id}.7", f"{batch_id}.8"]:
        for field in (None, "cases", "records", "rows", "response", "arguments", "output", "input", "sealed"):
            server.call("read_record", record_id=object_id, **here, **({"field": field} if field else {}))
    server.call("get_status", **here)
    server.call("find_records", batch_id=batch_id, text="quux", **here)
    server.call("find_records", batch_id=batch_id, text="mark", **here)
    server.call("wait_for_batch", batch_id=batch_id, **here)
    server.answer(server.begin("next_judgements", round_id=target.round_id, **here))
    rows = [{"record_id": f"{batch_id}.{n}", "verdict": "pass", "reason": "seen"} for n in range(1, 9)]
    judged = {"evaluation_spec": SPEC, "judger": {"method": "client"}}
    server.call("store_assessment", batch_id=batch_id, rows=rows, **judged, **here)
    server.call("store_dataset", batch_id=batch_id, **here)
    server.call("try_case", case_id="blind-1", dataset_id=target.dataset_id, **here)
    server.call("run_evaluation", round_id=target.round_id, case_ids=["blind-1"], **here)
    server.call("render_round_report", round_id=target.round_id, formats=["html", "markdown", "junit", "json"], **here)
    for assessment_id in target.state.objects["assessment"]:
        server.call("render_assessment_html", assessment_id=assessment_id, **here)
    server.call("inspect_or_recover_operation", **here)


def test_no_mark_is_on_the_wire_or_readable_in_the_store_until_both_final_sides_are_sealed(kept):
    tape = []
    here = {"project_path": kept.root}
    given = {"round_id": kept.round_id, "phase": "final", "wait_seconds": 100, **here}
    with Recorded(kept.root, tape) as server:
        left = server.done("run_evaluation", revision_id=kept.b0, **given)
        assert left["status"] == "sealed"
        judged = {"spec_id": kept.spec_id, "judger_id": kept.judger_id}
        server.done("store_assessment", batch_id=left["batch_id"], **judged, **here)
        ask_for_everything(server, kept, left["batch_id"])
        wire = b"".join(tape)
        assert holdouts.MARK.encode() not in wire
        assert holdouts.readable(kept.root) == []
        assert os.listdir(kept.path(".atk/work")) == []

        right = server.done("run_evaluation", revision_id=kept.revision_id, **given)
        shown = server.done("read_record", record_id=f"{left['batch_id']}.7", **here)["value"]
        case = server.done("read_record", record_id=f"{kept.dataset_id}/blind-2", **here)["value"]
    assert (shown["output"], shown["stderr_tail"]) == ("MARK-OUT\n", "MARK-ATTACHED\n")
    assert shown["events"] == [{"tool_result": "MARK-EVENT"}]
    assert shown["loading_evidence"] == [{"event": "MARK-LOADED"}]
    assert (case["input"], case["expected"]) == ("MARK-IN quux two", "MARK-WANTED")
    assert right["status"] == "sealed"
    assert holdouts.readable(kept.root) == []
    assert verify(kept.project).findings == []


def test_a_rule_judges_the_holdout_unseen_and_tells_no_reason(finished):
    rows = finished.call("read_record", record_id=finished.final_left_assessment_id, field="rows").value
    blind = {row["record_id"].rpartition(".")[2]: (row["verdict"], row["reason"]) for row in rows[6:]}
    assert blind["7"][0] == "pass"
    assert blind["8"][0] == "fail"
    assert "MARK" not in json.dumps(rows)


def test_a_client_may_judge_only_once_both_final_sides_are_sealed(kept):
    batch = kept.call("run_evaluation", round_id=kept.round_id, revision_id=kept.b0, phase="final", wait_seconds=100)
    rows = [{"record_id": f"{batch.batch_id}.{n}", "verdict": "pass", "reason": "read"} for n in range(1, 9)]
    given = {"batch_id": batch.batch_id, "rows": rows, "evaluation_spec": SPEC, "judger": {"method": "client"}}
    refused = kept.refusal("store_assessment", **given)
    assert refused.code == "holdout_stays_unseen"
    assert kept.revision_id in str(refused)
    attempt = {"record_id": f"{batch.batch_id}.7"}
    unseen = kept.call("inspect_trajectory", **attempt)
    assert (unseen.event_count, unseen.metrics, unseen.integrity) == (0, {}, None)
    assert "is of a holdout Case: unseen until both final sides" in unseen.message
    looked = kept.call("detect_failures", batch_id=batch.batch_id)
    assert (looked.records, looked.unseen) == (8, 2)
    assert not {f.record_id for f in looked.findings} & {f"{batch.batch_id}.7", f"{batch.batch_id}.8"}
    refs = [{"batch_id": batch.batch_id, "evidence_id": f"{batch.batch_id}.7/premature_end.1/0-0"}]
    cites = [issue("blind", "blind-1", evidence_refs=refs)]
    assert "stays unseen" in str(kept.refusal("store_diagnosis", round_id=kept.round_id, issues=cites))
    kept.call("run_evaluation", round_id=kept.round_id, revision_id=kept.revision_id, phase="final", wait_seconds=100)
    assert kept.call("detect_failures", record_ids=[attempt["record_id"]]).unseen == 0
    seen = kept.call("inspect_trajectory", **attempt, seq=0, field="output.value")
    assert seen.event == {"tool_result": "MARK-EVENT"}
    assert kept.call("store_assessment", **given).row_count == 8


def test_a_round_that_ran_its_holdout_takes_no_candidate_even_after_a_rollback(finished):
    given = {"round_id": finished.round_id, "primary_issue_id": finished.issue_id}
    refused = finished.refusal("prepare_candidate", **given)
    assert (refused.code, refused.facts["batch_id"]) == ("holdout_was_run", finished.final_left_batch_id)
    back = finished.round.baseline_commit
    finished.call("rollback_to", round_id=finished.round_id, target_commit=back, reason="the test takes it back")
    assert finished.refusal("prepare_candidate", **given).code == "holdout_was_run"
    status = finished.call("get_status", round_id=finished.round_id)
    assert status.round["holdout"]["stands"] == "opened"
    assert "prepare_candidate" not in [step.tool for step in status.next]


def test_what_was_run_is_no_fresh_holdout_in_another_round(finished):
    finished.compare("final")
    finished.call("finish_round", round_id=finished.round_id, action="abandon", reason="the test goes on")
    exposures = finished.state.all(Exposure)
    assert [(e.how, e.round_id, e.source_groups[0]) for e in exposures] == [("final_run", finished.round_id, "g1")]
    batch = finished.call("run_evaluation", revision_commit=finished.head, wait_seconds=100)
    assert finished.state.get(Batch, batch.batch_id).holdout_case_ids == ()
    assessed = finished.judge(batch.batch_id)
    new = finished.call("create_round", batch_ids=[batch.batch_id], assessment_ids=[assessed]).round_id
    finished.call("store_diagnosis", round_id=new, issues=[issue("crashes", "crash-1")])
    plan = {"repeatability": "deterministic"}
    refused = finished.refusal("freeze_round", round_id=new, plan=plan)
    assert refused.code == "holdout_exposed"
    assert refused.facts["groups"][0] == "g1"
    assert finished.round_id in refused.facts["how"][0]
    finished.call("freeze_round", round_id=new, plan={**plan, "holdout_case_ids": []})
    frozen = finished.state.get(Round, new).plan
    assert frozen.holdout_case_ids == ()
    assert "blind-1" not in frozen.case_ids
    assert verify(finished.project).findings == []


@pytest.mark.parametrize("usage", ["holdout", "optimization"])
def test_a_holdout_that_is_stored_again_under_another_name_is_not_fresh(finished, usage):
    """Its groups and ids are others; as a usual Case it was stored after the holdout was."""
    finished.call("finish_round", round_id=finished.round_id, action="abandon", reason="the test goes on")
    cases = [{"id": "crash-1", "input": "It did crash again", "expected": "technical"}]
    for case in holdouts.HOLDOUT:
        renamed = {"id": f"again-{case['id']}", "source_group_id": f"again-{case['id']}", "usage": usage}
        cases.append({**case, **renamed, "input": case["input"] + "\n"})
    blind = usage == "holdout"
    if not blind:
        for case in cases[1:]:
            case["source_group_id"] = "another"
    finished.write("cases.again.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    stored = finished.call("store_dataset", source="cases.again.jsonl").dataset_id
    new = finished.call("create_round", batch_ids=[finished.batch_id]).round_id
    finished.call("store_diagnosis", round_id=new, issues=[issue("crashes", "crash-1")])
    plan = {"repeatability": "deterministic", "spec_id": finished.spec_id, "judger_id": finished.judger_id}

    refused = finished.refusal(
        "freeze_round", round_id=new, plan={**plan, "dataset_id": stored if blind else finished.dataset_id}
    )

    assert refused.code == "holdout_exposed"
    assert len(refused.facts["groups"]) == len(holdouts.HOLDOUT)
    if blind:
        assert f"its input was seen as that of {finished.dataset_id}/blind-1" in refused.facts["how"][0]


def test_what_harms_the_holdout_is_harm_in_the_final_validation(kept):
    value = kept.round
    assert {"blind-1", "blind-2"} <= set(validations.of_round(value, holdouts.plan_of(kept), kept.state).protected)
    earlier = holdouts.plan_of(kept).model_copy(update={"rule_version": 1})
    assert "blind-1" not in validations.of_round(value, earlier, kept.state).protected


def test_holdout_is_neither_target_nor_protection_and_runs_in_no_other_phase(kept):
    plan = holdouts.plan_of(kept)
    assert plan.holdout_case_ids == ("blind-1", "blind-2")
    assert not {"blind-1", "blind-2"} & set(plan.protection_case_ids)
    assert {b.phase: b.holdout_case_ids for b in kept.state.all(Batch)} == {"incremental": ()}
    refused = kept.refusal("run_evaluation", round_id=kept.round_id, case_ids=["crash-1", "blind-1"])
    assert (refused.code, refused.facts["case_ids"]) == ("holdout_only_final", ["blind-1"])


def test_without_the_key_it_is_named_and_everything_else_works(finished, monkeypatch, tmp_path):
    monkeypatch.setenv(KEY_HOME, str(tmp_path / "none"))
    refused = finished.refusal("read_record", record_id=f"{finished.final_left_batch_id}.7")
    assert refused.code == "holdout_key_missing"
    assert str(tmp_path / "none") in str(refused)
    shown = finished.call("read_record", record_id=finished.dataset_id, field="cases").value
    assert [case["id"] for case in shown][-1] == "blind-2"
    finished.compare("final")
    assert finished.call("get_status").round["round_id"] == finished.round_id
    assert verify(finished.project).findings == []


def test_a_run_that_could_not_open_its_cases_is_refused_before_it_is_recorded(kept, monkeypatch, tmp_path):
    monkeypatch.setenv(KEY_HOME, str(tmp_path / "none"))
    before = kept.facts()
    refused = kept.refusal("run_evaluation", round_id=kept.round_id, revision_id=kept.b0, phase="final")
    assert refused.code == "holdout_key_missing"
    assert kept.changed_since(before) == []


@pytest.mark.parametrize("supervisor_too", [True, False])
def test_a_final_run_that_is_killed_leaves_nothing_readable_after_the_next_call(kept, supervisor_too):
    kept.write("slow", "")
    given = {"project_path": kept.root, "round_id": kept.round_id, "phase": "final", "wait_seconds": 0}
    with Wire(kept.root) as server:
        batch_id = server.done("run_evaluation", revision_id=kept.b0, **given)["batch_id"]
        until(lambda: os.path.exists(kept.path("begun")), "an attempt at a holdout Case")
        assert holdouts.readable(kept.root, skip=f".atk/work/{batch_id}") == []
        assert holdouts.readable(kept.root)
        if supervisor_too:
            for pid, called in children(server.process.pid).items():
                if "operations.execution.supervisor" in called:
                    os.kill(pid, signal.SIGKILL)
        server.process.kill()
        server.process.wait()
    until(lambda: not living_in(kept.root), "the agents' end")
    os.unlink(kept.path("slow"))
    kept.call("wait_for_batch", batch_id=batch_id)
    assert holdouts.readable(kept.root) == []
    assert os.listdir(kept.path(".atk/work")) == []
    assert kept.state.get(Batch, batch_id).status == "interrupted"


def test_a_final_run_that_was_stopped_carries_sealed_records_into_the_next(kept):
    kept.write("slow", "")
    given = {"round_id": kept.round_id, "revision_id": kept.b0, "phase": "final"}
    batch_id = kept.call("run_evaluation", **given, wait_seconds=0).batch_id
    until(lambda: os.path.exists(kept.path("begun")), "an attempt at a holdout Case")
    kept.call("stop_batch", batch_id=batch_id)
    until(lambda: kept.state.get(Batch, batch_id).status != "running", "the run's end")
    os.unlink(kept.path("slow"))
    assert holdouts.readable(kept.root) == []
    again = kept.call("run_evaluation", continue_batch_id=batch_id, wait_seconds=100)
    assert again.status == "sealed", again
    once_more = list(contents.raw_records(kept.project, kept.state, again.batch_id))
    assert all(record["sealed"] for record in once_more if record["case_id"].startswith("blind"))
    assert len(kept.state.all(Exposure)) == 1
    assert holdouts.readable(kept.root) == []
    assert verify(kept.project).findings == []
