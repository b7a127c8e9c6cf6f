"""Repeats that a cache answered are reported; short, varied and deterministic answers never are."""

import math
import random

import pytest

from operations.tuning.independence import CHANCE, Answer, chance_of, remarks

WORDS = ["the", "agent", "files", "a", "ticket", "about", "money", "and", "says", "so", "to", "its", "owner", "twice"]


def answers(outputs, ids=None):
    """One Record for each of a Case's outputs: {case: [output, ...]}."""
    found = []
    for case_id, texts in outputs.items():
        for text in texts:
            n = len(found) + 1
            event = {"kind": "model", "attributes": {"gen_ai.response.id": ids[n - 1]}} if ids else {}
            found.append(
                Answer.of(
                    {
                        "id": f"batch-1-t.{n}",
                        "case_id": case_id,
                        "output": text,
                        "events": [event],
                        "execution": {"status": "completed", "retry_of": None},
                    }
                )
            )
    return found


def free_text(rng, words=120):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def test_long_answers_that_are_the_same_in_every_repeat_are_reported():
    rng = random.Random(1)
    outputs = {f"c{n}": [free_text(rng)] * 3 for n in range(4)}
    [said] = remarks(answers(outputs), "stochastic")
    assert said.startswith("8 answers are identical to an earlier one of their Case (c0, c1, c2, c3), where chance")


@pytest.mark.parametrize("repeatability", ["deterministic", "unknown"])
def test_identical_answers_say_nothing_of_an_agent_that_is_not_called_stochastic(repeatability):
    assert remarks(answers({"c": [free_text(random.Random(1))] * 5}), repeatability) == ()


def test_labels_that_every_run_gives_are_no_sign_of_a_cache():
    assert remarks(answers({f"c{n}": ["billing\n"] * 10 for n in range(100)}), "stochastic") == ()


def test_varied_answers_raise_no_alarm():
    for seed in range(50):
        rng = random.Random(seed)
        outputs = {f"c{n}": [free_text(rng) for _ in range(5)] for n in range(20)}
        assert remarks(answers(outputs), "stochastic") == ()


def test_one_response_id_in_two_records_is_reported_unless_the_agent_is_deterministic():
    found = answers({"c0": ["a", "b"], "c1": ["a"]}, ids=["r-1", "r-1", "r-2"])
    [said] = remarks(found, "unknown")
    assert said.startswith("1 response id is in more than one Record (batch-1-t.1, batch-1-t.2)")
    assert remarks(found, "deterministic") == ()


def test_attempts_that_were_tried_again_are_left_out():
    first, second = answers({"c0": ["a", "b"]}, ids=["r-1", "r-1"])
    linked = Answer(**{**vars(second), "retry_of": first.record_id})
    assert remarks([first, linked], "stochastic") == ()


def test_the_bound_is_never_below_the_true_chance():
    for n, p in ((5, 0.1), (20, 0.3), (50, 0.02)):
        for k in range(n + 1):
            true = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
            assert chance_of(k, n * p) >= true - 1e-12
    assert (chance_of(0, 0), chance_of(1, 0)) == (1.0, 0.0)
    assert CHANCE < 0.001
