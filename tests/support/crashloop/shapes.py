"""What a store holds, told so that two stores in which the same was done are equal."""

from __future__ import annotations

import json
import re
from typing import Any

from storage.projection import State

_ID = re.compile(r"\b([a-z_]+)-[1-9][0-9]*-[0-9a-z]{4}\b")
_PUT_AWAY = re.compile(r"(refs/atk/paused/<round>)-[1-9][0-9]*$")
"""A ref is named after the record that made it, which comes later where the first attempt was undone."""
_DIGEST = re.compile(r"\b[0-9a-f]{12,64}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[0-9.:+Z]*")
_COUNTED = re.compile(r"(record|position|number|_ns|seconds|bytes|seed)$")
"""Fields whose numbers depend on when something was done, or on what else was."""


def shape(state: State) -> Any:
    """Returns every object, without what its ids, digests and times are, in an order that does not depend on them."""
    objects = {kind: [_plain(r.model_dump(mode="json")) for r in made.values()] for kind, made in state.objects.items()}
    found = {
        kind: sorted(values, key=lambda value: json.dumps(value, sort_keys=True)) for kind, values in objects.items()
    }
    return {**found, "files": sorted(map(_text, state.files))}


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {_text(str(k)): _plain(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v, name) for v in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and _COUNTED.search(name):
        return 0
    return value


def _text(value: str) -> str:
    plain = _TIME.sub("<time>", _DIGEST.sub("<digest>", _ID.sub(r"<\1>", value)))
    return _PUT_AWAY.sub(r"\1-<record>", plain)


def differences(wanted: Any, found: Any, at: str = "") -> str:
    """Names the first places at which two shapes differ."""
    return "; ".join(_differences(wanted, found, at)[:4])


def _differences(wanted: Any, found: Any, at: str) -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        both = [name for name in wanted if name in found]
        here = [f"{at}.{name} is there once only" for name in wanted.keys() ^ found.keys()]
        return here + [line for name in both for line in _differences(wanted[name], found[name], f"{at}.{name}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for n, (a, b) in pairs for line in _differences(a, b, f"{at}[{n}]")]
    return [] if wanted == found else [f"{at} is {str(found)[:120]} and not {str(wanted)[:120]}"]
