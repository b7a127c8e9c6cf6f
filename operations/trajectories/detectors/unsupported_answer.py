"""Finds figures and names in an answer that neither the user nor any result said, and that do not follow from them."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.claims import Claim, claims_in
from operations.trajectories.detectors.episode import Episode
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted
from operations.trajectories.detectors.support import Support

CONFIDENCE = {"figure": 0.75, "name": 0.65}
"""A figure can be derived in ways that the rule does not know; a name can be common knowledge."""

UNLOOKED = 0.6
"""Where nothing was looked up at all: what is claimed may be what everybody knows."""

NAMED = 3
"""Claims that a reason names."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    text = episode.answer_text
    if text is None:
        yield Unknown("the log has no answer")
        return
    looked = any(True for _ in episode.observed())
    if not looked and (episode.calls or not episode.tools):
        yield Unknown("the log has nothing that the answer could rest on")
        return
    claims = claims_in(text)
    if not claims:
        return
    support = Support(episode, text)
    unsupported: list[Claim] = [claim for claim in claims if not support.carries(claim)]
    if unsupported:
        kind = "figure" if any(claim.kind == "figure" for claim in unsupported) else "name"
        named = ", ".join(quoted(claim.text) for claim in unsupported[:NAMED])
        more = f" and {len(unsupported) - NAMED} more" if len(unsupported) > NAMED else ""
        said = f"neither the user nor any result says {named}{more}, and it does not follow from them"
        yield Seen(episode.answer_seqs, CONFIDENCE[kind] if looked else UNLOOKED, said)


DETECTOR = Detector(
    "unsupported_answer",
    1,
    "The answer has a figure or a name which neither the user, the instructions nor any result said. A figure "
    "is carried by what was said if it is said there, is the sum, difference, product, ratio, share, mean or "
    "count of what is said, or a rounding of one; a name is a word with a capital inside a sentence, a word "
    "of letters and digits, or a quotation.",
    _look,
)
