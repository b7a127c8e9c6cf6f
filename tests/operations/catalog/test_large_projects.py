"""No answer is larger than 8,000 bytes, with 3,000 Cases whose names are long and 3,000 Records."""

import pytest

from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import EXACT, SPEC, issue

LIMIT = 8_000
CASES = [(f"{n:04} {'a name that goes on and on ' * 4}", f"ticket {n} " + "x" * 300, "yes") for n in range(3000)]


@pytest.fixture(scope="module")
def made(stages, tmp_path_factory):
    """Every answer on the way of a large Round, by what was asked."""
    target = stages.copy("initialized", str(tmp_path_factory.mktemp("large") / "target"))
    target.write_cases(CASES)
    found = {}

    def ask(name, **arguments):
        found[f"{name} {len(found)}"] = answer = target.call(name, **arguments)
        return answer

    target.ids["dataset_id"] = ask("store_dataset", source="cases.csv").dataset_id
    target.ids["batch_id"] = batch = store_batch(target, "revision-1-head", lambda case, _: "no" * (case < "15"))
    spec = {**SPEC, "dimensions": ["correct"]}
    assessed = ask("store_assessment", batch_id=batch, evaluation_spec=spec, judger=EXACT)
    opened = ask("create_round", batch_ids=[batch], assessment_ids=[assessed.assessment_id])
    failing = [case_id for case_id, *_ in CASES[:1500]]
    ask(
        "store_diagnosis",
        round_id=opened.round_id,
        issues=[issue(f"issue {n} {'x' * 50}", *failing) for n in range(40)],
    )
    ask("freeze_round", round_id=opened.round_id, preview=True)
    ask("freeze_round", round_id=opened.round_id)
    ask("get_status")
    ask("wait_for_batch", batch_id=batch)
    records = target.state
    for kind in ("project", "dataset", "batch", "assessment", "round", "revision", "spec", "judger", "issue"):
        ask("read_record", record_id=next(reversed(records.objects[kind])))
    for record_id, field in (
        (batch, "records"),
        (target.dataset_id, "cases"),
        (assessed.assessment_id, "rows"),
        (opened.round_id, "plan"),
        (opened.round_id, "plan.case_fingerprints"),
        (opened.round_id, "plan.target_case_ids_by_issue"),
        (f"{batch}.7", None),
        (f"{target.dataset_id}/{CASES[5][0]}", None),
        *((f"journal-{n}", None) for n in range(1, records.position.number + 1)),
    ):
        ask("read_record", record_id=record_id, **({"field": field} if field else {}))
    ask("inspect_or_recover_operation")
    return found


def test_every_answer_is_small(made):
    sizes = {asked: len(answer.model_dump_json().encode()) for asked, answer in made.items()}

    assert {asked: size for asked, size in sizes.items() if size > LIMIT} == {}


def test_long_lists_are_counted_where_they_are_cut(made):
    frozen = next(answer for asked, answer in made.items() if asked.startswith("freeze_round"))

    assert frozen.plan["case_ids"][-1].endswith(" more")
    assert frozen.plan["case_fingerprints_count"] == 3000
