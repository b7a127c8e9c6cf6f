"""The default budget pays one incremental side a candidate: a kept candidate's batch is the next one's parent side."""

from tests.support.projects import CASES, FIX, Target

SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the queue is the expected one"}}
LOGIN = (("login-1", "I cannot login", "access"), ("login-2", "login fails", "access"))


def test_the_batch_of_a_kept_candidate_serves_the_next_one_and_the_default_budget_suffices(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.write_cases((*CASES, *LOGIN))
    target.initialize()
    dataset = target.call("store_dataset", source="cases.csv").dataset_id
    seen = target.call("run_evaluation", dataset_id=dataset, revision_commit=target.git("rev-parse", "HEAD").strip())
    judged = target.call("store_assessment", batch_id=seen.batch_id, evaluation_spec=SPEC, judger={"method": "exact"})
    opened = target.call("create_round", batch_ids=[seen.batch_id], assessment_ids=[judged.assessment_id])
    issues = [
        {"id": word, "symptom": f"{word} is misfiled", "hypothesis": "no rule", "case_ids": [f"{word}-1", f"{word}-2"]}
        for word in ("refund", "login")
    ]
    ids = target.call("store_diagnosis", round_id=opened.round_id, issues=issues).issue_ids
    plan = {"repeatability": "deterministic", "repeatability_basis": "the agent reads a file"}
    target.call("freeze_round", round_id=opened.round_id, plan=plan)

    def side(revision_id):
        run = target.call("run_evaluation", round_id=opened.round_id, revision_id=revision_id, wait_seconds=200)
        both = {"spec_id": judged.spec_id, "judger_id": judged.judger_id}
        return target.call("store_assessment", batch_id=run.batch_id, **both).assessment_id

    parent = side(opened.revision_id)
    prompts = {"refund": FIX, "login": FIX + "login -> access\n"}
    for word, prompt in prompts.items():
        draft = target.call("prepare_candidate", round_id=opened.round_id, primary_issue_id=ids[word])
        target.write("prompt.txt", prompt)
        sealed = target.call("seal_candidate", round_id=opened.round_id, candidate_id=draft.candidate_id)
        mine = side(sealed.revision_id)
        found = target.call(
            "compare_and_gate", round_id=opened.round_id, left_assessment_id=parent, right_assessment_id=mine
        )
        assert found.result == "pass", (word, found.summary)
        kept = {"round_id": opened.round_id, "candidate_id": draft.candidate_id, "action": "keep", "reason": "passed"}
        target.call("decide_candidate", **kept)
        parent = mine
    status = target.call("get_status").round
    assert status["budget"]["free"] == 0
    assert status["budget"]["final_reserve"] == 2 * (len(CASES) + len(LOGIN))
