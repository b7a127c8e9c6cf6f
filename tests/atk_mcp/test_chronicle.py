"""The journal in lines."""

from atk_mcp import chronicle

AT = "2030-01-01T00:00:00+00:00"


def intent(n):
    objects = {"candidate": {"candidate-1-aaaa": {}}, "revision": {"revision-2-bbbb": {}}}
    answer = {"message": "Sealed,\nsays it."}
    return {"n": n, "at": AT, "kind": "intent", "op": "seal_candidate", "objects": objects, "response": answer}


def end(n, kind, of, **more):
    return {"n": n, "at": AT, "kind": kind, "op": "seal_candidate", "intent": of, **more}


def run(n, batch="batch-1-cccc"):
    answer = {"message": "It runs."}
    return {"n": n, "at": AT, "kind": "run_started", "op": "run_evaluation", "run": {"batch_id": batch}} | {
        "response": answer,
        "objects": {"batch": {batch: {}}},
    }


def sealed(n, batch="batch-1-cccc", **more):
    value = {"status": "partial", "end_reason": "stopped", "counts": {"completed": 3, "timeout": 0, "failed": 1}} | more
    objects = {"batch": {batch: value}}
    body = {"n": n, "at": AT, "kind": "run_sealed", "op": "run_evaluation", "batch_id": batch, "objects": objects}
    return body | {"response": {}}


def told(*bodies):
    return [" ".join(line.replace(AT, "").split()) for line in chronicle.lines(bodies)]


def test_the_end_of_an_intent_names_it_and_its_objects():
    assert told(intent(3), end(4, "done", 3)) == [
        "3 seal_candidate Sealed, says it.",
        "4 seal_candidate done: record 3 (candidate-1-aaaa, revision-2-bbbb)",
    ]


def test_an_intent_that_was_undone_says_why_and_by_whom():
    ending = end(4, "undone", 3, recovered=True, reason="a file is unknown")
    assert told(intent(3), ending)[1] == (
        "4 seal_candidate undone: record 3 (candidate-1-aaaa, revision-2-bbbb), by recovery; a file is unknown"
    )
    ending = end(4, "undone", 3, left_as_is=True, reason="so it shall be")
    assert told(intent(3), ending)[1].endswith("), every file left as it is; so it shall be")


def test_the_seal_of_a_run_says_how_the_batch_ended():
    assert told(run(5), intent(6), sealed(7))[2] == (
        "7 run_evaluation sealed: record 5; batch-1-cccc is partial (stopped): 3 completed, 1 failed"
    )
    assert told(run(5), sealed(6, end_reason=None, counts={}))[1].endswith("batch-1-cccc is partial: no attempt")


def test_what_has_no_end_yet_is_told_last():
    assert told(intent(3), run(4))[2:] == [
        "open since record 3: seal_candidate (candidate-1-aaaa, revision-2-bbbb); `atk status` says whether it goes on",
        "open since record 4: run_evaluation (batch-1-cccc); `atk status` says whether it goes on",
    ]


def test_an_ending_whose_beginning_is_not_among_the_records_is_told_all_the_same():
    assert told(end(4, "done", 3)) == ["4 seal_candidate done: record 3"]
