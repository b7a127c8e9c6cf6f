"""A Record proves a component when what it loaded is what the batch observed, as one digest or file by file."""

import hashlib
from types import SimpleNamespace

import pytest

from operations.execution.versions import content_digest
from operations.tuning.loading import in_the_clear, proves, unproven

DIGEST = "a" * 64
EVENT = {"component_id": "prompt", "state": "loaded", "fingerprint": DIGEST}


def record(*events, status="completed", case_id="c", sealed=None, told=True):
    execution = SimpleNamespace(status=status)
    evidence = (events or ()) if sealed and told else events or None
    return SimpleNamespace(
        id="batch-1-a.1", case_id=case_id, loading_evidence=evidence, execution=execution, sealed=sealed
    )


def problems(*records, observed=DIGEST):
    batch = SimpleNamespace(id="batch-1-a", components=({"component_id": "prompt", "sha256": observed},))
    return unproven(batch, records, ["prompt"], {"c"})


def test_every_counted_record_has_to_prove_it():
    assert problems(record(EVENT), record(EVENT, status="agent_error")) == ()
    assert "1 Record of batch-1-a does not prove" in problems(record(EVENT), record())[0]
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


def test_a_sealed_record_proves_it_itself_unless_its_seal_is_of_before_that_was_told():
    assert problems(record(EVENT), record(EVENT, sealed="s")) == ()
    assert "does not prove" in problems(record(EVENT), record(sealed="s"))[0]
    assert problems(record(EVENT), record(sealed="s", told=False)) == ()


@pytest.mark.parametrize("records", [[], [record(status="timeout")], [record(sealed="s", told=False)]])
def test_nothing_is_proved_where_no_record_says_anything(records):
    assert "No Record of batch-1-a that counts" in problems(*records)[0]


def test_what_is_told_of_a_sealed_attempt_proves_the_same_and_holds_none_of_its_words(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "inner" / "b.txt").write_text("two")
    folder = content_digest(str(tmp_path))
    events = [
        {"component_id": "tools", "state": "loaded", "path": name, "fingerprint": hashlib.sha256(text).hexdigest()}
        for name, text in (("a.txt", b"one"), ("inner/b.txt", b"two"))
    ]
    given = [EVENT | {"note": "MARK"}, {"component_id": "MARK", "state": "loaded", "fingerprint": DIGEST}, *events]
    given += [{"component_id": "prompt", "state": "loaded", "fingerprint": "MARK"}, {"event": "MARK"}]
    told = in_the_clear(given, ["prompt", "tools", "other"])
    assert "MARK" not in str(told)
    assert "txt" not in str(told)
    for component_id, content in (("prompt", DIGEST), ("tools", folder), ("tools", DIGEST), ("other", DIGEST)):
        assert proves(told, component_id, content) == proves(given, component_id, content)


def test_what_is_told_of_a_large_folder_still_proves_it_and_every_other_component(tmp_path):
    """So many files that not all their digests are told; that of the whole is, and those of the others are."""
    digests = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(1_500)]
    files = [
        {"component_id": "a-folder", "state": "loaded", "path": f"{n}.txt", "fingerprint": each}
        for n, each in enumerate(digests)
    ]
    for n in range(1_500):
        (tmp_path / f"{n}.txt").write_text(str(n))
    told = in_the_clear([*files, EVENT], ["a-folder", "prompt"])
    assert len(told) <= 1_000
    assert proves(told, "a-folder", content_digest(str(tmp_path)))
    assert proves(told, "prompt", DIGEST)
