"""Whatever can change a project is crashed: no operation and no way of deciding is left out."""

from __future__ import annotations

from typing import get_args

import pytest

from operations.catalog.candidates.decide_candidate import DecideCandidateRequest
from operations.catalog.rounds.finish_round import FinishRoundRequest
from operations.catalog.rounds.transition_round import TransitionRoundRequest
from operations.definition import Effect
from operations.registry import all_operations
from tests.crash.conftest import SHARE, share
from tests.support.crashloop.scenarios import SCENARIOS

REQUESTS = {
    "decide_candidate": DecideCandidateRequest,
    "finish_round": FinishRoundRequest,
    "transition_round": TransitionRoundRequest,
}


def test_every_changing_operation_has_a_scenario():
    changing = {name for name, made in all_operations().items() if made.effect is not Effect.READ}
    assert {scenario.operation for scenario in SCENARIOS.values()} == changing


@pytest.mark.parametrize("name", REQUESTS)
def test_every_action_of_an_operation_has_a_scenario(name):
    tried = {scenario.action for scenario in SCENARIOS.values() if scenario.operation == name} - {""}
    assert tried == set(get_args(REQUESTS[name].model_fields["action"].annotation))


def test_the_share_of_ci_has_every_kind():
    chosen = [SCENARIOS[name] for name in share()]
    assert len(chosen) == len({scenario.name for scenario in chosen}) >= len(SCENARIOS) // SHARE
    assert any(scenario.runs for scenario in chosen)
    assert any(scenario.git for scenario in chosen)
