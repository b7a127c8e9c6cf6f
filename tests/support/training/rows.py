"""A log with every kind of segment, and its row, for tests of what becomes of it in training."""

from __future__ import annotations

import os
from typing import Any

from operations.trajectories.projections import sft_messages
from tests.support.logs import a_log, call, result, say, think, user

TEMPLATE = os.path.join(os.path.dirname(__file__), "template.jinja")


def template() -> str:
    """Returns a chat template that shows everything, each message after the others."""
    with open(TEMPLATE, encoding="utf-8") as file:
        return file.read()


def a_row(question: str = "add 1 and 2", answer: str = "3") -> dict[str, Any]:
    """Returns the row of a short run with reasoning, a call, its result and an answer."""
    log = a_log(
        user(question),
        think("I add"),
        call("c", "add", arguments={"a": 1, "b": 2}),
        result("c", answer),
        say(f"It is {answer}."),
    )
    row, report = sft_messages(log)
    assert row is not None, report.refused
    return row
