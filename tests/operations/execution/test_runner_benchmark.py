"""The runner's benchmark believes the agent's own side log and not the runner."""

import sys

import pytest

from benchmarks import runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def test_every_record_of_a_timed_run_is_what_the_agent_says():
    cost = runner.ours(24, 4)
    assert cost.seconds > 0
    assert cost.growth is None  # too short to tell


@pytest.mark.parametrize(
    ("said", "instead", "why"),
    [
        ("printf '%s %s %s", "printf 'x%s %s %s", "not what the agent printed"),
        ('echo "$2 $3 $$" >> side.log\n', 'echo "$2 $3 $$" >> side.log\necho again >> side.log\n', "ran 16 times"),
    ],
)
def test_a_record_that_differs_from_the_side_log_ends_the_benchmark(monkeypatch, said, instead, why):
    assert said in runner.AGENT
    monkeypatch.setattr(runner, "AGENT", runner.AGENT.replace(said, instead))
    with pytest.raises(AssertionError, match=why):
        runner.ours(8, 2)


def test_the_exponent_is_that_of_the_power_law():
    assert runner.exponent([(n, 3 * n**1.2) for n in (1000, 3000, 10000)]) == pytest.approx(1.2)


def test_a_peer_that_is_not_installed_is_left_out():
    assert runner.peer("false", 10, 2) is None
