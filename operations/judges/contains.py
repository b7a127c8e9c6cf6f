"""The judge `contains`: passes when everything expected stands somewhere in the output."""

from __future__ import annotations

import json
from typing import Any

from operations.judges._judge import Comparison, Judgement, RuleSettings, judge


@judge
def contains(sides: Comparison[RuleSettings]) -> Judgement:
    """Passes when the expected text, or each text of an expected list, stands in the output."""
    wanted = [_text(item) for item in (sides.expected if isinstance(sides.expected, list) else [sides.expected])]
    if not wanted or "" in wanted:
        return Judgement("unknown", "An empty text is expected, and every output contains it.")
    found = _text(sides.found)
    missing = [text for text in wanted if text not in found]
    if not missing:
        return Judgement("pass", "The output contains what was expected.")
    if not sides.whole:
        return Judgement("unknown", "The output was cut, and what is left of it lacks something expected.")
    return Judgement("fail", f"The output lacks {len(missing)} of {len(wanted)} expected texts.")


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
