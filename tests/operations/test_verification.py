"""`atk verify` finds every byte, count, Validation and Decision that is not what was recorded, and heals none."""

import json
import os
import random
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from atk_mcp.inspector import main
from operations.assessing import rechecking
from operations.importers._assessment_csv import read_assessment_csv
from operations.verification import verify
from storage import contents
from storage.files import Folder
from storage.frames import ORIGIN, Frame, encode, scan
from storage.journal import SEGMENT
from storage.project import Project
from storage.schema.assessments import Assessment

COVERED = ("datasets", "evidence", "assessments", "validations", "rounds", "revisions", "specs", "judgers", "journal")


@pytest.fixture(scope="module")
def whole(stages, tmp_path_factory):
    """A store alone, as it would be copied to another machine: no repository, no agent."""
    target = stages.copy("completed", str(tmp_path_factory.mktemp("verified") / "target"))
    alone = str(tmp_path_factory.mktemp("alone"))
    shutil.copytree(target.path(".atk"), os.path.join(alone, ".atk"), symlinks=True)
    return alone


@pytest.fixture
def alone(whole, tmp_path):
    root = str(tmp_path / "copy")
    shutil.copytree(whole, root, symlinks=True)
    return root


def _files(root: str) -> list[str]:
    top = os.path.join(root, ".atk")
    found = [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
    return sorted(os.path.relpath(path, top) for path in found)


def _content(root: str) -> dict[str, tuple[bytes, int]]:
    kept = {}
    for path in _files(root):
        full = os.path.join(root, ".atk", path)
        with open(full, "rb") as file:
            kept[path] = (file.read(), os.stat(full).st_mtime_ns)
    return kept


def _found(root: str) -> dict[str, str]:
    return {finding.path: finding.problem for finding in verify(Project.open(root)).findings}


def test_copy_of_a_finished_round_is_verified_without_its_repository_and_nothing_is_written(alone):
    before = _content(alone)
    report = verify(Project.open(alone))
    assert report.findings == []
    assert report.open_work == []
    assert report.checked["Validations"] == 2
    assert report.checked["Decisions"] == 2
    assert report.checked["files"] > 10
    assert _content(alone) == before


def test_one_differing_bit_in_any_file_is_named(alone):
    draw = random.Random(5)
    covered = [path for path in _files(alone) if path.startswith(COVERED) or path == "project.json"]
    assert len(covered) > 30
    missed = []
    for path in covered:
        full = os.path.join(alone, ".atk", path)
        with open(full, "r+b") as file:
            data = file.read()
            at = draw.randrange(len(data))
            file.seek(at)
            file.write(bytes([data[at] ^ 1 << draw.randrange(8)]))
            file.flush()
            if path not in _found(alone):
                missed.append(f"{path} at byte {at}")
            file.seek(at)
            file.write(data[at : at + 1])
    assert missed == []
    assert _found(alone) == {}


def test_missing_file_a_stranger_and_a_link_are_named(alone):
    top = os.path.join(alone, ".atk")
    cases = next(path for path in _files(alone) if path.endswith("cases.jsonl"))
    os.remove(os.path.join(top, cases))
    with open(os.path.join(top, "evidence", "extra.jsonl"), "w", encoding="ascii") as file:
        file.write("{}\n")
    os.symlink("/etc/hostname", os.path.join(top, "assessments", "link"))
    found = _found(alone)
    assert found[cases] == "is missing"
    assert found["evidence/extra.jsonl"] == "is named by no journal record"
    assert "link" in found["assessments/link"]


def test_interrupted_append_is_named_and_stays(alone):
    path = os.path.join(alone, ".atk", SEGMENT)
    with open(path, "ab") as file:
        file.write(b"0000")
    size = os.path.getsize(path)
    assert "interrupted append" in _found(alone)[SEGMENT]
    assert os.path.getsize(path) == size


# A forger who can write the journal makes every checksum and digest fit again; what was decided does not follow.


def _forge(root: str, edit: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrites the journal: `edit` changes a body and says so. Every frame is chained anew."""
    store = Folder(os.path.join(root, ".atk"))
    data = store.read(SEGMENT)
    prev, out, edits = ORIGIN, [], 0
    for found in scan(data):
        if isinstance(found, Frame):
            body = json.loads(json.dumps(found.body))
            edits += edit(body)
            frame, prev = encode({**body, "prev": prev})
            out.append(frame)
    assert edits, "nothing was forged"
    store.replace(SEGMENT, b"".join(out))
    store.close()


def _objects(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return list(body.get("objects", {}).get(kind, {}).values())


def _changes(kind: str, change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], bool]:
    def edit(body: dict[str, Any]) -> bool:
        found = _objects(body, kind)
        for value in found:
            change(value)
        return bool(found)

    return edit


def _another_margin(value: dict[str, Any]) -> None:
    if value["plan"]:
        value["plan"]["margin"] = 0.9


def _another_change(value: dict[str, Any]) -> None:
    if value["changes"]:
        value["changes"][0]["path"] = "agent.sh"


def _skipped(value: dict[str, Any]) -> None:
    if value["status"] == "ready":
        value["status"] = "finalizing"


def _smaller_budget(value: dict[str, Any]) -> None:
    if value["plan"]:
        value["plan"]["budget"]["executions"] = 2


FORGERIES = {
    "step": ("round", _skipped, "goes from analysis_only to finalizing"),
    "beginning": ("round", lambda v: v.update(status="optimizing"), "begins as optimizing"),
    "ending": ("round", lambda v: v.update(final_decision_id=None), "is completed without a Decision"),
    "spending": ("round", _smaller_budget, "Executions of 2"),
    "result": ("validation", lambda v: v.update(result="insufficient"), "says result insufficient; made again"),
    "statistic": ("validation", lambda v: v["statistics"].update(primary_delta=0.9), "says statistics"),
    "look": ("validation", lambda v: v.update(look=4), "says look 4; made again it is 1"),
    "reason": ("validation", lambda v: v.update(reasons=["It is better."]), "says reasons"),
    "decision": ("decision", lambda v: v.update(validation_result="regression"), "it is pass"),
    "grounds": ("decision", lambda v: v.update(validation_id="validation-2-aaaa"), "rests on validation-2-aaaa"),
    "authority": ("decision", lambda v: v.update(override=True), "nobody authorized that"),
    "no grounds": ("decision", lambda v: v.update(validation_id=None), "without a passing Validation"),
    "batch": ("batch", lambda v: v.update(counts={"completed": 1}), "says counts {'completed': 1}; made again"),
    "dataset": ("dataset", lambda v: v.update(case_count=99), "says case_count 99; made again"),
    "assessment": ("assessment", lambda v: v.update(counts={"correct": {"pass": 1}}), "says counts"),
    "plan": ("round", _another_margin, "plan that is not the one of its plan_digest"),
    "candidate": ("candidate", _another_change, "says changes_digest"),
}


@pytest.mark.parametrize(("kind", "change", "told"), FORGERIES.values(), ids=list(FORGERIES))
def test_forged_journal_with_fitting_digests_is_found_out(alone, kind, change, told):
    _forge(alone, _changes(kind, change))
    problems = [finding.problem for finding in verify(Project.open(alone)).findings]
    assert not any("damage" in problem for problem in problems), "the chain was to fit"
    assert any(told in problem for problem in problems), problems


def test_forged_verdicts_with_fitting_digests_change_what_the_comparison_comes_to(alone):
    top = os.path.join(alone, ".atk")
    store = Folder(top)
    forged = {}
    for path in _files(alone):
        if path.endswith("assessment.csv"):
            with open(os.path.join(top, path), "rb") as file:
                data = file.read()
            store.replace(path, data.replace(b",pass,", b",fail,"))
            forged[path] = store.digest(path)
    store.close()

    def edit(body: dict[str, Any]) -> bool:
        own = set(body.get("files", {})) & set(forged)
        for path in own:
            body["files"][path] = {"sha256": forged[path].sha256, "size": forged[path].size}
        return bool(own)

    _forge(alone, edit)
    problems = [finding.problem for finding in verify(Project.open(alone)).findings]
    assert any(problem.startswith("says result pass; made again it is") for problem in problems), problems
    assert any(problem.startswith("says verdicts of the rule exact [(") for problem in problems), problems


def test_what_a_rule_says_of_the_stored_records_is_made_again_until_what_is_masked_may_have_changed(at, monkeypatch):
    target = at("assessed")
    known = target.state.get(Assessment, target.assessment_id)
    said, again = rechecking.of_assessment(target.project, target.state, known)["verdicts of the rule exact"]
    assert said == again == []
    kept = read_assessment_csv(contents.checked(target.project, target.state, f"assessments/{known.id}/assessment.csv"))
    turned = [row.model_copy(update={"verdict": "pass"}) for row in kept]
    monkeypatch.setattr(rechecking, "_rows", lambda *_: turned)
    said, again = rechecking.of_assessment(target.project, target.state, known)["verdicts of the rule exact"]
    assert {verdict for _, verdict in said} == {"pass"}
    assert again == [(row.record_id, "fail") for row in kept if row.verdict == "fail"]
    target.initialize(command=["sh", "agent.sh", "{input_file}"], redact_keys=["queue"], revise=True)
    assert rechecking.of_assessment(target.project, target.state, known) == {}


def test_command_exits_with_0_on_a_whole_store_and_1_with_the_place_on_a_changed_one(alone, capsys):
    assert main(["verify", "--project", alone]) == 0
    assert "Everything is as it was recorded." in capsys.readouterr().out
    with open(os.path.join(alone, ".atk", "project.json"), "ab") as file:
        file.write(b" ")
    assert main(["verify", "--project", alone, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verified"] is False
    assert [found["path"] for found in told["findings"]] == ["project.json"]
