"""What the outcome of a call brings: whether it failed, is empty, or says anything that was not seen before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from operations.trajectories.detectors.episode import Call
from operations.trajectories.detectors.words import DEEP, leaves, text_of, tokens, unpacked

SHORT = 8
"""Words up to which a text with a negation counts as "there is nothing": longer ones say more than that."""

SUBSTANTIAL = 6
"""Words from which the same outcome of another call brings nothing. A shorter one, such as "ok" or "up", is an answer
about its own call: five servers that are all "up" are five findings."""

NEGATIVE = re.compile(
    r"\b(?:no|not|none|nothing|never|nil|empty|zero|0 \w+|n/a)\b|n't\b|没有|未找到|找不到|不存在|无结果", re.IGNORECASE
)
_FAILED = re.compile(r"\s*(?:\w*error\b|\w*exception\b|traceback|failed\b|failure\b|fatal\b|错误|失败)", re.IGNORECASE)
_NOT_WELL = frozenset(("error", "failed", "failure", "fail"))


def failure(call: Call) -> str | None:
    """Returns how a call failed: `typed` where the log says so, `worded` where its result does, None where neither."""
    if call.error:
        return "typed"
    return "worded" if any(_says_failed(unpacked(value)) for value in call.said) else None


def _says_failed(value: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return bool(_FAILED.match(value))
    if not isinstance(value, dict):
        return False
    if any(value.get(name) for name in ("error", "errors", "exception", "isError", "is_error")):
        return True
    if any(value.get(name) is False for name in ("ok", "success", "succeeded")):
        return True
    return isinstance(value.get("status"), str) and value["status"].casefold() in _NOT_WELL


def brings_nothing(call: Call) -> bool:
    """Whether all that is told after a call says that there is nothing: it is empty, or a short text with a negation.

    Null is no such answer: it is what a call returns that does something and has nothing to say.
    """
    own = words_of(call)
    return all(_is_nothing(value, own) for value in (*call.said, *call.observed))


def words_of(call: Call) -> frozenset[str]:
    """Returns the words of a call's arguments."""
    given = call.given if call.status == "unparsable" else call.arguments
    return frozenset(word for leaf in leaves(given) if leaf is not None for word in tokens(text_of([leaf])))


def values_of(call: Call) -> frozenset[str]:
    """Returns the values of a call's arguments, each as its words."""
    return frozenset(" ".join(tokens(text_of([leaf]))) for leaf in leaves(call.arguments) if leaf is not None)


def _is_nothing(value: Any, own: frozenset[str]) -> bool:  # noqa: ANN401 - any JSON
    value = unpacked(value)
    if value is None:
        return False
    if isinstance(value, str):
        # What a text repeats of the call does not make it longer: no results for "the relay port of the gateway".
        own_left_out = sum(word not in own for word in tokens(value))
        return not value.strip() or (own_left_out <= SHORT and bool(NEGATIVE.search(value)))
    if isinstance(value, bool | int | float):
        return False
    found = list(_ends(value))
    # A zero or a "false" counts as nothing only beside something that is empty: {"hits": [], "total": 0}.
    return all(_is_hollow(one, own) for one in found) and any(one in ([], {}) or isinstance(one, str) for one in found)


def _ends(value: Any, depth: int = 0) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    """Yields the leaves of a value, empty lists and objects among them; what lies too deep is no empty thing."""
    if isinstance(value, dict | list) and value:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _ends(item, depth + 1) if depth < DEEP else ("deep",)
    else:
        yield value


def _is_hollow(value: Any, own: frozenset[str]) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return _is_nothing(value, own)
    return value is None or value in (False, 0) or value in ([], {})


def pieces(call: Call) -> frozenset[str]:
    """Returns what is told after a call, in pieces: leaves of JSON and lines of text, in any order."""
    found: set[str] = set()
    for value in (*call.said, *call.observed):
        for leaf in leaves(unpacked(value)):
            text = leaf if isinstance(leaf, str) else repr(leaf)
            found.update(" ".join(line.casefold().split()) for line in text.split("\n"))
    return frozenset(found - {""})


def is_substantial(call: Call) -> bool:
    """Whether the results say enough that hearing them again brings nothing."""
    values = [unpacked(value) for value in call.said]
    several = any(isinstance(value, list) and len(value) > 1 for value in values)
    return several or sum(len(tokens(text_of(value))) for value in values) >= SUBSTANTIAL


def error_key(call: Call) -> tuple[str, ...]:
    """Returns what tells one error from another; what a message repeats of the call does not."""
    error, own = call.error or {}, words_of(call)
    message = " ".join(word for word in tokens(str(error.get("message") or "")) if word not in own)
    return (str(error.get("kind")), str(error.get("code")), message)
