"""Checks a project's rules of masking, and finds what they would have to mask in its configuration."""

from __future__ import annotations

from typing import Any

from storage.masking import KEY_BYTES, Masker, check_patterns, count_masks, require_second_look
from storage.schema.projects import Project

_NO_TEXT = {"workspace_path", "created_at", "redact_keys", "redact_patterns"}


def secrets_in(record: Project) -> list[str]:
    """Returns the places of a configuration that hold a credential, once its rules are known to be usable.

    Raises:
        RedactPatternUnusable: A pattern is not.
        PatternEngineMissing: There are patterns, and nothing runs them.
        SecondLookMissing: A second look is asked for, and nothing takes it.
    """
    check_patterns(record.redact_patterns)
    if record.second_look:
        require_second_look()
    known = Masker(bytes(KEY_BYTES))
    rules = Masker(bytes(KEY_BYTES), (), record.redact_patterns, second_look=record.second_look)
    # A rule speaks of passwords and keys; it holds one only where it is a known token.
    tokens = [
        f"{field}.{number}"
        for field, rules_given in (("redact_keys", record.redact_keys), ("redact_patterns", record.redact_patterns))
        for number, rule in enumerate(rules_given)
        if count_masks(known.text(rule)).keys() - {"credential"}
    ]
    return [*_places(record.model_dump(mode="json", exclude=_NO_TEXT), rules, known), *tokens]


def _places(value: Any, rules: Masker, known: Masker, place: str = "") -> list[str]:  # noqa: ANN401 - JSON
    """Names the places below `value` that hold a credential: by its form, its field's name, or the option before it."""
    if isinstance(value, str):
        return [place] if rules.own_text(value) != value else []
    inside: list[tuple[str, str, Any]] = []
    if isinstance(value, dict):
        inside = [(name, name, below) for name, below in value.items()]
    elif isinstance(value, list):
        before = ["", *(x.lstrip("-") if isinstance(x, str) and x.startswith("-") else "" for x in value)]
        inside = [(str(n), before[n], below) for n, below in enumerate(value)]
    found: list[str] = []
    for step, name, below in inside:
        where = f"{place}.{step}" if place else step
        named = isinstance(below, str) and "{" not in below and known.changed({name: below})
        found += [where] if named else _places(below, rules, known, where)
    return found
