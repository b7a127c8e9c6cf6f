"""Ways in which a holdout Case may come back: said otherwise, told in another place, called or dealt otherwise."""

from __future__ import annotations

import base64
import json
import unicodedata
import urllib.parse
from collections.abc import Callable
from typing import Any

HOLDOUT: dict[str, Any] = {
    "blind-1": "The parcel to Lyon came open,\nand the blue vase in it is broken",
    "blind-2": {"question": "Which tariff holds for the second meter in the cellar of the old house?", "lang": "en"},
    "blind-3": (
        "地下室のメーターはどの料金表で計算されるのか、二台目について詳しく教えてください。急ぎです、お願いします"
    ),
    "blind-4": "quux 17?",
}
"""Case id → its input: a sentence, an object, a language without spaces, and a text too short to be looked for."""


def said(value: Any) -> str:
    """Returns an input as the text that a person would write."""
    return value if isinstance(value, str) else str(value["question"])


def _half(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


WRITTEN: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda value: value,
    "spaced": lambda value: "  " + "   ".join(said(value).split(" ")) + "\n",
    "shouted": lambda value: said(value).upper(),
    "without punctuation": lambda value: "".join(c for c in said(value) if c.isalnum() or c == " "),
    "full width": lambda value: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in said(value)),
    "decomposed": lambda value: unicodedata.normalize("NFD", said(value)),
    "zero width": lambda value: "\u200b".join(said(value)),
    "soft hyphens": lambda value: "\u00ad".join(said(value)),
    "accented": lambda value: "".join(f"{c}\u0301" if c.isascii() and c.isalpha() else c for c in said(value)),
    "other digits": lambda value: "".join(chr(0x660 + int(c)) if c in "0123456789" else c for c in said(value)),
    "look-alikes": lambda value: said(value).replace("e", "\u0435").replace("o", "\u03bf").replace("T", "\u0422"),
    "letter by letter": lambda value: list(said(value)),
    "quoted": lambda value: f"«{said(value)}»",
    "as JSON": json.dumps,
    "as JSON twice": lambda value: json.dumps(json.dumps(value)),
    "an object": lambda value: {"text": said(value)},
    "in a list": lambda value: [said(value)],
    "a message": lambda value: [{"role": "user", "content": said(value)}],
    "parts": lambda value: [{"role": "user", "content": [{"type": "text", "text": said(value)}]}],
    "keys turned": lambda value: dict(reversed(value.items())) if isinstance(value, dict) else {"b": value},
}
"""Every one is asked as a whole, so that any length is known."""

WRAPPED: dict[str, Callable[[Any], Any]] = {
    "in a prompt": lambda value: f"You are an agent. Answer the customer: {said(value)} Be brief.",
    "in a template": lambda value: {"system": "answer briefly", "customer": f"> {said(value)}\n", "n": 3},
    "in markdown": lambda value: f"# Ticket\n\n* **{said(value)}**\n",
    "with others": lambda value: "First: is it raining? Second: " + said(value),
    "its first half": lambda value: _half(said(value))[0],
    "its second half": lambda value: _half(said(value))[1],
    "in two messages": lambda value: [{"role": "user", "content": half} for half in _half(said(value))],
    "escaped in a prompt": lambda value: f"Answer the ticket {json.dumps(said(value))} in one line.",
    "escaped twice": lambda value: f"log: {json.dumps(json.dumps(said(value)))} end",
    "in HTML": lambda value: f"<p>{''.join(f'&#{ord(c)};' for c in said(value))}</p>",
    "its words marked up": lambda value: "".join(f"<b class=w>{word}</b> " for word in said(value).split(" ")),
    "in a URL": lambda value: f"https://example.org/?q={urllib.parse.quote_plus(said(value))}&n=1",
    "in base64": lambda value: f"data/{base64.b64encode(said(value).encode()).decode()}",
    "in base64 twice": lambda value: base64.b64encode(base64.b64encode(said(value).encode())).decode(),
    "in hexadecimal digits": lambda value: f"bytes {said(value).encode().hex()}",
    "the name of a field": lambda value: {said(value): 1},
    "its beginning among others": lambda value: f"search for {said(value)[:60]} and so on",
    "cut": lambda value: said(value)[:-3] + "…",
}
"""Others stand around it, or some of it is missing; only what is long enough is known."""
