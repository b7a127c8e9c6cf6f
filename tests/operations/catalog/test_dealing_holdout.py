"""A split deals a holdout: by a seed and whole groups, sealed as it is stored, and never of what is known already."""

import json
import os

from storage.schema.batches import Batch
from storage.schema.datasets import Dataset
from storage.schema.exposures import Exposure

HELD = {"protection": 0.3, "holdout": 0.2, "seed": 4}


def write(target, name, rows):
    target.write(name, "".join(json.dumps(row) + "\n" for row in rows))
    return name


def rows(count, groups=10):
    return [{"id": f"c-{n}", "input": f"ask-{n}-quux", "source_group_id": f"g-{n % groups}"} for n in range(count)]


def test_a_holdout_share_is_proposed_then_dealt_by_group_and_sealed(at):
    target = at("initialized")
    source = write(target, "all.jsonl", rows(70))
    proposed = target.call("store_dataset", source=source, split=HELD, preview=True)
    assert proposed.usage_counts == {"optimization": 35, "protection": 21, "holdout": 14}
    assert proposed.group_counts == {"optimization": 5, "protection": 3, "both_by_source": 0, "holdout": 2}
    made = target.call(proposed.next[0].tool, **proposed.next[0].arguments)
    assert (made.usage_counts, made.group_counts) == (proposed.usage_counts, proposed.group_counts)
    assert "encrypted under .atk/" in made.warnings[0]
    stored = target.state.get(Dataset, made.dataset_id)
    assert (stored.split.holdout, stored.split.seed) == (0.2, 4)
    with open(os.path.join(target.root, ".atk", "datasets", made.dataset_id, "cases.jsonl"), encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    blind = [case for case in cases if case["usage"] == "holdout"]
    assert len(blind) == 14
    assert all(case["sealed"] and not case["input"] for case in blind)
    assert {c["source_group_id"] for c in blind}.isdisjoint(c["source_group_id"] for c in cases if c not in blind)
    assert target.state.all(Exposure) == []


NEW = "Only Cases that are new to it can be held out."


def test_what_the_project_knows_already_is_dealt_to_no_holdout(at):
    target = at("initialized")
    target.call("store_dataset", source=write(target, "known.jsonl", rows(70)[:35]))
    again = [{**row, "source_group_id": f"of-{row['source_group_id']}"} for row in rows(70)]
    first = target.call("store_dataset", source=write(target, "all.jsonl", again), split={"holdout": 0.9, "seed": 1})
    assert first.usage_counts["holdout"] == 0
    assert first.warnings[-2:] == [
        "No Case is for holdout: 10 source groups cannot be divided so.",
        "10 source groups could be no holdout: the group or an input of it is known elsewhere in the project. " + NEW,
    ]
    fresh = [{**row, "input": f"new {row['id']}"} for row in rows(20, groups=20)]
    made = target.call("store_dataset", source=write(target, "new.jsonl", fresh), split={"holdout": 0.3, "seed": 1})
    assert made.usage_counts == {"optimization": 14, "protection": 0, "holdout": 6}
    known_by_name = [row for row in fresh if int(row["id"][2:]) < 10]
    assert made.warnings[-1].startswith(f"{len(known_by_name)} source groups could be no holdout")
    assert target.state.all(Exposure) == []


def test_an_input_that_two_groups_share_is_no_holdout_of_either(at):
    target = at("initialized")
    source = write(target, "twins.jsonl", [{"id": str(n), "input": "same", "expected": n} for n in range(4)])
    made = target.call("store_dataset", source=source, split={"holdout": 0.5}, preview=True)
    assert made.usage_counts == {"optimization": 4, "protection": 0, "holdout": 0}


def test_records_of_evidence_are_dealt_to_no_holdout(at):
    target = at("evaluated")
    error = target.refusal("store_dataset", batch_id=target.batch_id, split={"holdout": 0.5})
    assert error.code == "split_refused"
    assert "lie open" in str(error)
    assert len(target.state.all(Dataset)) == 1


def test_a_dealt_holdout_is_left_out_of_a_run_before_the_end(at):
    target = at("initialized")
    made = target.call("store_dataset", source=write(target, "all.jsonl", rows(5)), split={"holdout": 0.4, "seed": 2})
    run = target.call("run_evaluation", dataset_id=made.dataset_id, revision_commit=target.head, wait_seconds=200)
    assert target.state.get(Batch, run.batch_id).slots == 3
