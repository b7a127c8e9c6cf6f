"""A reason of blanks is no reason: it is asked for, and is no fault of ATK's."""

import pytest

from operations.tuning.judging import AssessmentStands
from tests.operations.catalog.stages import Stages


@pytest.mark.parametrize("reason", [" ", "\u2028"])
def test_a_blank_reason_supersedes_nothing(tmp_path, reason):
    target = Stages(str(tmp_path / "stages")).copy("assessed", str(tmp_path / "target"))
    before = target.facts()
    assert isinstance(target.refusal("store_assessment", **judged(target), supersede_reason=reason), AssessmentStands)
    assert target.changed_since(before) == []


def judged(target):
    return {"batch_id": target.batch_id, "spec_id": target.spec_id, "judger_id": target.judger_id}
