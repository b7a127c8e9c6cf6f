"""What an attempt showed is said in plain words, with what to change."""

import pytest

from atk_mcp.starting import trying


def smoke(output="", *, end="exited", code=0, outcome=None):
    ended = {"timeout": "timeout", "not_started": "infra_error"}.get(end, "agent_error" if code else "completed")
    outcome = outcome or ended
    return {"end": end, "exit_code": code, "outcome": outcome, "duration_seconds": 0.5, "output": output}


WROTE = "It wrote, to stdout (its answer) and to stderr:"


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (smoke("queue: billing\n"), ["It started, and ended with exit code 0 after 0.5 s.", WROTE,
                                     "  queue: billing"]),
        (smoke(), ["It started, and ended with exit code 0 after 0.5 s.", "It wrote nothing."]),
        (smoke("No such file: agnet", end="not_started", code=None),
         ["It could not be started: No such file: agnet"]),
        (smoke(end="timeout", code=None), ["It did not end within its limit and was ended after 0.5 s.",
                                           "It wrote nothing."]),
        (smoke("a" * 700), ["It started, and ended with exit code 0 after 0.5 s.", WROTE, "  …" + "a" * 600]),
    ],
)  # fmt: skip
def test_an_attempt_is_told_in_sentences(attempt, words):
    assert trying.in_words(attempt) == words


@pytest.mark.parametrize(
    ("attempt", "placement", "other", "said"),
    [
        (smoke("fine"), "argument", None, None),
        (smoke(), "argument", "stdin", "What counts as the answer is what it writes to stdout."),
        (smoke(), "stdin", "argument", "It got its input on its standard input"),
        (smoke(), None, None, "{input} is the text, {input_file} the path of a JSON file"),
        (smoke("EOFError: EOF when reading a line", code=1), "argument", "stdin", "It got its input as an argument"),
        (smoke("usage: agent.py [-h] ticket", code=2), "stdin", "argument", "perhaps it takes it another way"),
        (smoke("FileNotFoundError: 'Hello'", code=1), "argument", "file", "perhaps it takes it another way"),
        (smoke("ModuleNotFoundError: No module named 'x'", code=1), "argument", None, "into .venv here"),
        (smoke("Error: Cannot find module 'x'", code=1), "argument", None, "npm ci"),
        (smoke("KeyError: 'SHOP_KEY'", code=1), "argument", None, "It seems to lack a variable"),
        (smoke("ECONNREFUSED", code=1), "argument", None, "A service was not reached."),
        (smoke("sh: ./a: Permission denied", code=126), "argument", None, "chmod +x"),
        (smoke("x", end="not_started", code=None), "argument", None, "Look at the first word of the command"),
        (smoke("x", end="timeout", code=None), "argument", None, "does not end by itself"),
        (smoke("boom", code=1), "argument", "stdin", "It got its input as an argument"),
        (smoke("boom", code=1), None, None, "by hand in this folder"),
        (smoke("boom", code=1, outcome="infra_error"), "argument", None, "by hand in this folder"),
    ],
)
def test_advice_names_what_to_change_and_whether_the_input_belongs_elsewhere(attempt, placement, other, said):
    assert trying.wants(attempt, placement) == other
    advised = trying.advice(attempt, placement)
    assert (said in advised[0]) if said else (advised == [])
