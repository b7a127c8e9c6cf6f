"""Everything that the crash loop aims at: at least one scenario of each operation that changes anything."""

from __future__ import annotations

from tests.support.crashloop import of_evidence, of_rounds, of_runs
from tests.support.crashloop.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for scenario in (*of_evidence.SCENARIOS, *of_rounds.SCENARIOS, *of_runs.SCENARIOS)
}
