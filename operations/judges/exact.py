"""The judge `exact`: passes when the output is what was expected."""

from __future__ import annotations

import json

from operations.judges._judge import Comparison, Judgement, RuleSettings, folded, judge, parsed, same


@judge
def exact(sides: Comparison[RuleSettings]) -> Judgement:
    """Passes when the output is the expected text, or the same JSON value where a value was expected."""
    if not sides.whole:
        return Judgement("unknown", "The output was cut, so it cannot be compared as a whole.")
    expected, found = sides.expected, sides.found
    if isinstance(expected, str) and not isinstance(found, str):
        # Cells of a CSV are text: there the expected 42 is written "42".
        found = json.dumps(found, ensure_ascii=False)
    elif isinstance(found, str) and not isinstance(expected, str):
        try:
            found = folded(parsed(found), sides.settings)
        except ValueError:
            return Judgement("fail", "A JSON value was expected, and the output is not JSON.")
    if same(expected, found):
        return Judgement("pass", "The output is what was expected.")
    return Judgement("fail", "The output is not what was expected.")
