"""Where the client judges what a Round compares, both sides are run and then dealt to it, wherever advice is given."""

from tests.operations.catalog.test_blind_judging import dealt_round, judged, pages


def first(target):
    return target.call("get_status").next[0]


def test_both_sides_are_dealt_before_one_is_judged_by_itself(at):
    target = dealt_round(at)

    assert (first(target).tool, first(target).arguments) == ("next_judgements", {"round_id": target.round_id})
    read = pages(target, **first(target).arguments)
    advised = read[-1].next[0]
    assert (advised.tool, advised.arguments, set(advised.supply)) == (
        "store_assessment",
        {"deal_id": read[0].deal_id},
        {"rows"},
    )
    target.call("store_assessment", deal_id=read[0].deal_id, rows=judged([i for page in read for i in page.items]))
    assert first(target).tool == "compare_and_gate"


def test_a_side_that_was_run_leads_to_the_other_side_and_not_to_a_judgement_of_it_alone(at):
    target = dealt_round(at)
    last = target.call("wait_for_batch", batch_id=target.right_batch_id)
    assert last.next[0] == first(target)
    assert last.next[0].tool == "next_judgements"


def test_a_baseline_that_is_judged_later_with_its_candidate_does_not_hold_up_the_candidate(at):
    target = dealt_round(at)
    target.decide("reject", validation_missing_reason="another comes")
    ran = target.call("wait_for_batch", batch_id=target.left_batch_id)
    assert (first(target).tool, ran.next[0]) == ("prepare_candidate", first(target))


def test_a_side_judged_before_is_superseded_with_a_reason_or_the_other_judged_by_itself(at):
    target = dealt_round(at)
    cases = len(target.round.plan.case_ids)
    rows = [{"record_id": f"{target.left_batch_id}.{n}", "verdict": "fail"} for n in range(1, cases + 1)]
    target.call(
        "store_assessment",
        batch_id=target.left_batch_id,
        spec_id=target.spec_id,
        judger_id=target.judger_id,
        rows=rows,
    )
    advised = target.call("get_status").next
    assert [call.tool for call in advised] == ["next_judgements", "store_assessment"]
    assert advised[1].arguments["batch_id"] == target.right_batch_id
    read = pages(target, **advised[0].arguments)
    store = read[-1].next[0]
    assert target.left_batch_id in store.supply["supersede_reason"]
    items = [item for page in read for item in page.items]
    target.call("store_assessment", **store.arguments, rows=judged(items), supersede_reason="both unseen now")
    assert first(target).tool == "compare_and_gate"
