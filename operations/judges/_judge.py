"""What a judge is: how evidence is prepared for a rule, and what is decided before any rule is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from operations import mistakes
from storage.masking import Masker, has_mask
from storage.schema.assessments import Validity, Verdict
from storage.schema.base import Value
from storage.schema.evidence import ExecutionStatus


class RuleSettings(Value):
    """How a rule compares texts, and which part of the output it looks at."""

    ignore_case: bool = False
    strip: bool = True
    """Whether white space at both ends of a text is left out."""
    json_field: str | None = None
    """Compares this field of the output, which must then be JSON. Names and list positions are joined by dots."""

    @property
    def needs_expected(self) -> bool:
        """Whether nothing can be said of a Record that has no expected answer."""
        return True


SettingsT = TypeVar("SettingsT", bound=RuleSettings)


_DIGITS = 15
"""Digits that a place in a list has at the most."""

NO_EXPECTED = "The Case has no expected answer."
"""The reason of a rule that compares with one."""


@dataclass(frozen=True)
class Judgement:
    """What a judge says about one Record."""

    verdict: Verdict
    reason: str
    validity: Validity = "valid"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a judge may look at: the Case's expected answer, and how its Execution went."""

    expected: Any
    expected_present: bool
    output: str | None
    """The agent's output, masked or not; None when none was kept."""
    output_truncated: bool = False
    """Whether the end of the output is missing."""
    status: ExecutionStatus
    input: Any = None
    """The Case's input, for a judge that looks at it."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Generic[SettingsT]):
    """Both sides as a rule sees them: masked alike, with the settings' case and white space applied to every text."""

    expected: Any
    """None where the Case has no expected answer, which only a rule that needs none gets to see."""
    found: Any
    """The output as text, or a field of it as a JSON value."""
    whole: bool
    """Whether `found` is everything that the agent said there."""
    settings: SettingsT


Rule = Callable[[Comparison[Any]], Judgement]


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A rule by name, with everything around it that is the same for every rule."""

    name: str
    description: str
    rule: Rule
    settings: type[RuleSettings] = RuleSettings
    """What the rule can be told."""
    folds: bool = True
    """Whether case and white space of both sides are made alike before the rule sees them."""

    def told(self, given: Mapping[str, Any]) -> RuleSettings:
        """Returns the settings that `given` says.

        Raises:
            ValueError: It says something that the rule does not know or cannot use, in a sentence.
        """
        try:
            return self.settings.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in ("settings", *first["loc"]))
            said = mistakes.sentence(name, first)
            known = ", ".join(f.alias or name for name, f in self.settings.model_fields.items())
            raise ValueError(f"{said}; {self.name} has {known}") from None

    def judge(
        self,
        evidence: Evidence,
        masker: Masker,
        settings: RuleSettings | None = None,
        *,
        timeout_is_failure: bool = False,
    ) -> Judgement:
        """Returns the verdict on one Record.

        A failed Execution fails; one that says nothing about the agent is unknown, and so is what lacks an expected
        answer or an output. Both sides are masked by `masker` before they are compared, and where a mask is left in
        what is compared the verdict is unknown, because equal masks do not show that the rest is equal.
        """
        settings = settings or self.settings()
        if ruled := before_comparing(evidence, settings, timeout_is_failure=timeout_is_failure):
            return ruled
        expected, found = masker.value(evidence.expected), masker.text(evidence.output or "")
        if settings.json_field is not None:
            if evidence.output_truncated:
                return Judgement("unknown", "The output was cut, so its JSON cannot be read.")
            try:
                document = parsed(found)
            except ValueError:
                return _not_json(found)
            try:
                found = _field(document, settings.json_field)
            except LookupError:
                return Judgement("fail", f"The output has no field {settings.json_field}.")
        if _masked(expected) or _masked(found):
            return Judgement("unknown", "A masked credential is part of what would be compared.")
        whole = not evidence.output_truncated
        if self.folds:
            expected, found = folded(expected, settings), folded(found, settings)
        return self.rule(Comparison(expected=expected, found=found, whole=whole, settings=settings))


def judge(rule: Rule) -> Judge:
    """Turns a rule into a `Judge` with the settings that every rule has. See `judge_with`."""
    return judge_with(RuleSettings)(rule)


def judge_with(settings: type[RuleSettings], *, folds: bool = True) -> Callable[[Rule], Judge]:
    """Turns a rule into a `Judge` named after it and described by its docstring's first line.

    Raises:
        TypeError: The rule is not named after its module, or has no docstring.
    """

    def define(rule: Rule) -> Judge:
        if rule.__name__ != rule.__module__.rpartition(".")[2] or not rule.__doc__:
            raise TypeError(f"{rule.__module__}.{rule.__name__} must be named after its module and have a docstring.")
        return Judge(
            name=rule.__name__,
            description=rule.__doc__.splitlines()[0],
            rule=rule,
            settings=settings,
            folds=folds,
        )

    return define


def parsed(text: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of JSON text.

    Raises:
        ValueError: The text is not JSON, or nests too deep to be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def folded(value: Any, settings: RuleSettings) -> Any:  # noqa: ANN401 - JSON
    """Returns a JSON value with the settings' case and white space applied to every text in it."""
    if isinstance(value, str):
        text = value.strip() if settings.strip else str(value)
        return text.casefold() if settings.ignore_case else text
    if isinstance(value, list):
        return [folded(item, settings) for item in value]
    if isinstance(value, dict):
        return {name: folded(item, settings) for name, item in value.items()}
    return value


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON
    """Returns whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    return bool(one == other)


def before_comparing(evidence: Evidence, settings: RuleSettings, *, timeout_is_failure: bool) -> Judgement | None:
    """Returns what is said of a Record before any rule is asked, or None where a rule decides."""
    match evidence.status:
        case "agent_error":
            return Judgement("fail", "The agent failed.")
        case "timeout" if timeout_is_failure:
            return Judgement("fail", "The agent did not end within its time, which counts as a failure here.")
        case "timeout":
            return Judgement("unknown", "The agent did not end within its time.")
        case "infra_error" | "cancelled":
            return Judgement(
                "unknown", f"The Execution ended as {evidence.status}: it says nothing of the agent.", "invalid"
            )
        case "unknown":
            return Judgement("unknown", "Nobody knows how the Execution ended.", "unknown")
    if not evidence.expected_present and settings.needs_expected:
        return Judgement("unknown", NO_EXPECTED)
    if evidence.output is None:
        return Judgement("unknown", "No output was kept.")
    return None


def _field(document: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the field of a JSON value. Raises `LookupError` where there is none."""
    for name in path.split("."):
        if isinstance(document, dict):
            document = document[name]
        elif isinstance(document, list) and name.isascii() and name.isdecimal() and len(name) <= _DIGITS:
            document = document[int(name)]
        else:
            raise LookupError(name)
    return document


def _not_json(text: str) -> Judgement:
    if has_mask(text):
        return Judgement("unknown", "A masked credential stands in the output, which is not JSON as it is.")
    return Judgement("fail", "The output is not JSON, and a field of it was to be compared.")


def _masked(value: Any) -> bool:  # noqa: ANN401 - JSON
    return has_mask(value if isinstance(value, str) else json.dumps(value))
