"""How ATK words an error that its caller can act on.

    AtkError
    ├── one subclass for each fact, defined beside the code that finds it
    └── Damaged                 the store itself cannot be trusted (storage.journal, storage.files)

A subclass declares its facts as fields; `message` is a template over them and `next_calls` says which
call gets the caller further. The edge renders both; nothing else in ATK formats an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


@dataclass(frozen=True)
class NextCall:
    """One call that leads on: `arguments` are filled in, `supply` names what only the caller can give."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    supply: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True, eq=False)
class AtkError(Exception):
    """Base of every error that ATK raises on purpose."""

    message: ClassVar[str]
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    @property
    def code(self) -> str:
        """The stable snake_case name that a caller may branch on, such as `wrong_round_status`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of this error, as plain values."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @property
    def next(self) -> tuple[NextCall, ...]:
        """`next_calls` with the facts filled in; an argument whose fact is empty is left out."""
        facts = self.facts
        shown = {name: _shown(fact) for name, fact in facts.items()}
        return tuple(
            NextCall(
                call.tool.format_map(facts),
                {k: v for k, raw in call.arguments.items() if (v := _filled(raw, facts)) not in (None, "")},
                {k: v.format_map(shown) for k, v in call.supply.items()},
            )
            for call in self.next_calls
        )

    def worded(self, template: str) -> str:
        """Returns a template over the facts, which may say the same as `message` in other words, as it is shown."""
        return template.format_map({k: _shown(v) for k, v in self.facts.items()})

    def __str__(self) -> str:
        return self.worded(self.message)


def _filled(raw: object, facts: Mapping[str, Any]) -> object:
    """Returns `raw` with `{name}` replaced; a template that is nothing but one name keeps the fact's type."""
    if not isinstance(raw, str):
        return raw
    whole = re.fullmatch(r"\{(\w+)\}", raw)
    return facts[whole[1]] if whole else raw.format_map(facts)


def _plain(value: object) -> object:
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(x) for x in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _shown(value: object) -> object:
    """Lists are shown as words, and a long one is cut: an error has to be read."""
    if isinstance(value, list):
        shown = ", ".join(str(x) for x in value[:8])
        return shown + (f" and {len(value) - 8} more" if len(value) > 8 else "") or "none"  # noqa: PLR2004 - eight is what fits a line
    return value
