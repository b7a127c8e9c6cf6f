"""Makes an agent's text safe to be read: nothing in it is hidden from a person, or means something to Markdown."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 but tab and line ends, DEL, C1
    "\u200b\u2028\u2029\u2060-\u2064\ufeff"  # of no width, but for the joiners that scripts and emoji need
    "\u202a-\u202e\u2066-\u2069"  # overrides of the writing direction
    "\ud800-\udfff\ufffe\uffff]"  # what no file and no XML can hold
)
_OWN = re.compile(r"[\\`*_{}\[\]<>#|~!@&$]")
_APART = "\u200b"
"""Put between the characters of what GitHub makes a link or a notification of after it has read the Markdown."""
_LINKED = re.compile(r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=\bGH-)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)", re.IGNORECASE)


def visible(text: str) -> str:
    """Returns the text with what a reader would not see, or what turns the line around, as its number: `{U+202E}`."""
    return _UNSEEN.sub(lambda found: f"{{U+{ord(found[0]):04X}}}", text)


def markdown(text: str, limit: int) -> str:
    """Returns the text in one line of at most `limit` characters, escaped so that GitHub shows it and does nothing.

    A backslash keeps Markdown and HTML away. Mentions, numbers of issues and addresses are found in what was rendered,
    so they are taken apart by a character of no width.
    """
    one = visible(" ".join(text.split()))
    cut = one if len(one) <= limit else f"{one[: limit - 1]}…"
    return _OWN.sub(lambda found: f"\\{found[0]}", _LINKED.sub(_APART, cut))
