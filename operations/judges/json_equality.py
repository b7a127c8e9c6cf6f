"""The judge `json_equality`: passes when the output is the expected JSON value."""

from __future__ import annotations

import json
from typing import Any

from operations.judges._json_sides import DocumentSettings, document, wanted
from operations.judges._judge import Comparison, Judgement, judge_with, same


class EqualitySettings(DocumentSettings):
    """What of the values does not count."""

    ignore_order: bool = False
    """Whether the order of every list is left out of account."""
    ignore_fields: tuple[str, ...] = ()
    """Fields that are left out of both sides: names joined by dots, `*` for any name or place in a list."""


@judge_with(EqualitySettings)
def json_equality(sides: Comparison[EqualitySettings]) -> Judgement:
    """Passes when the output is the same JSON value as the expected answer; 1 and 1.0 are the same, 1 and true not."""
    found, said = document(sides)
    if said is not None:
        return said
    right = _counted(found, sides.settings)
    if any(same(_counted(one, sides.settings), right) for one in wanted(sides.expected, sides.settings)):
        return Judgement("pass", "The output is the expected value.")
    return Judgement("fail", "The output is not the expected value.")


def _counted(value: Any, settings: EqualitySettings) -> Any:  # noqa: ANN401 - JSON
    for path in settings.ignore_fields:
        value = _without(value, path.split("."))
    return _sorted(value) if settings.ignore_order else value


def _without(value: Any, path: list[str]) -> Any:  # noqa: ANN401 - JSON
    name, rest = path[0], path[1:]
    if isinstance(value, dict):
        kept = {}
        for key, item in value.items():
            if name not in ("*", key):
                kept[key] = item
            elif rest:
                kept[key] = _without(item, rest)
        return kept
    if isinstance(value, list) and rest:
        return [_without(item, rest) if name in ("*", str(n)) else item for n, item in enumerate(value)]
    return value


def _sorted(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the value with every list in one order, the same for lists that hold the same."""
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=_key)
    return value


def _key(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(_alike(value), sort_keys=True)


def _alike(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the value with whole numbers written alike, as `same` takes them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _alike(item) for name, item in value.items()}
    return [_alike(item) for item in value] if isinstance(value, list) else value
