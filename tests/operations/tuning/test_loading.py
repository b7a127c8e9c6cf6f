"""A Record proves a component when what it loaded is what the batch observed, as one digest or file by file."""

import hashlib
from types import SimpleNamespace

import pytest

from operations.execution.versions import content_digest
from operations.tuning.loading import proves, unproven

DIGEST = "a" * 64
EVENT = {"component_id": "prompt", "state": "loaded", "fingerprint": DIGEST}


def record(*events, status="completed", case_id="c"):
    execution = SimpleNamespace(status=status)
    evidence = events or None
    return SimpleNamespace(
        id="batch-1-a.1", case_id=case_id, loading_evidence=evidence, execution=execution, sealed=None
    )


def problems(*records, observed=DIGEST):
    batch = SimpleNamespace(id="batch-1-a", components=({"component_id": "prompt", "sha256": observed},))
    return unproven(batch, records, ["prompt"], {"c"})


def test_every_counted_record_has_to_prove_it():
    assert problems(record(EVENT), record(EVENT, status="agent_error")) == ()
    assert "1 Records of batch-1-a do not prove" in problems(record(EVENT), record())[0]
    assert problems(record(EVENT), record(status="infra_error"), record(case_id="other")) == ()


@pytest.mark.parametrize(
    "wrong", [{"state": "staged"}, {"fingerprint": "b" * 64}, {"component_id": "other"}, {"fingerprint": None}]
)
def test_what_was_not_loaded_or_is_another_content_proves_nothing(wrong):
    assert problems(record(EVENT | wrong))


def test_what_no_batch_observed_cannot_be_proved():
    assert "did not observe" in problems(record(EVENT), observed=None)[0]
    assert unproven(SimpleNamespace(components=()), [record()], [], {"c"}) == ()


def test_folder_is_proved_by_all_of_its_files(tmp_path):
    for name in ("b/z.md", "b/a/x.md", "a.md", "z.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    events = [
        {
            "component_id": "skill",
            "state": "loaded" if p.name == "a.md" else "staged",
            "path": str(p.relative_to(tmp_path)),
            "fingerprint": hashlib.sha256(p.read_bytes()).hexdigest(),
        }
        for p in files
    ]
    whole = content_digest(str(tmp_path))
    assert proves(events, "skill", whole)
    assert not proves(events[1:], "skill", whole)
    assert not proves([e | {"state": "staged"} for e in events], "skill", whole)
