"""The figures and names that a text claims."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from operations.trajectories.detectors.words import NUMBERS

MOST, LONGEST = 100, 50_000
"""Claims, and characters, of one answer that are looked at; a longer answer is a document."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A piece of an answer that has to come from somewhere."""

    kind: Literal["figure", "name", "date"]
    """A date is a day of the week or a month: it follows from any date that was said."""
    text: str
    values: tuple[float, ...] = ()
    """What a figure can mean: 1,234 is one and a bit in some countries."""
    decimals: int = 0
    rough: bool = False
    """Whether the text says that it is not exact."""
    share: bool = False
    """Whether it is a percentage."""


# Each repetition has a bound, so that no text takes longer than in proportion to its length.
_JOINED = (
    r"\w{1,64}(?:[./@\\:-]\w{1,64}){0,12}(?:@\w|_\w|\.[a-z][a-z0-9]{1,4}\b(?![.\w]))[\w./@-]{0,100}"
    r"|(?<!\w)/\w{1,64}(?:/[\w.-]{1,64}){1,12}"
)
"""A name with signs inside: a file, an address, a word of a program."""
_MIXED = r"(?=[\w./@:-]{0,64}\d)(?=[\w./@:-]{0,64}[^\W\d])\w[\w./@:-]{0,100}\w"
_NUMBER = r"\d+(?:[.,'\u00a0\u202f]\d+)*"
_QUOTE = r"[\"“„«`][^\"“”„«»`\n]{1,80}[\"”“»`]"
_PIECE = re.compile(
    rf"(?P<quote>{_QUOTE})|(?P<joined>{_JOINED})|(?P<mixed>{_MIXED})|(?P<number>{_NUMBER})|(?P<word>[^\W\d_][\w'-]*)"
)
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)", re.IGNORECASE)
_WITH_UNIT = re.compile(
    rf"({_NUMBER})(k|m|bn|%|°|°?[cf]|s|ms|h|min|kg|g|mg|km|cm|mm|kb|mb|gb|tb|b|eur|usd|gbp|am|pm|x|l|ml|w|kw|kwh|v|"
    r"d|hz|mhz|ghz)",
    re.IGNORECASE,
)
_SCALES = {"k": 1e3, "K": 1e3, "thousand": 1e3, "M": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_START = re.compile(r"(?:^|[.!?:;\u2013\u2014•*|/(\[{\"“„«`#>\u3002\n-])[\s*_#>\"'(\[“„-]*$")
"""What stands before a word that begins a sentence, a line, a label or a quotation."""
_TITLE = re.compile(r"\b(?:mr|mrs|ms|dr|prof|st)\.\s*$", re.IGNORECASE)
"""A full stop that ends no sentence."""
_DOES = re.compile(
    r"\s+(?:wrote|said|says|chairs|chaired|leads|led|owns|owned|signed|founded|invented|built|directed|won|lives|lived|"
    r"works|worked|painted|composed|discovered|designed|approved|ordered|called|answered|confirmed|agreed)\b"
)
"""What stands after the name of somebody."""
_BULLET = re.compile(r"(?:^|\n)[ \t]*\(?$")
_ROUGH = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|approximately|some|over|under|circa|ca\.|up to|"
    r"(?:more|less|fewer) than|at (?:least|most))|[~≈<>≤≥])\s*\S{0,3}\s*$",
    re.IGNORECASE,
)

_WRITTEN = {word: value for word, value in NUMBERS.items() if value >= 2 and word not in ("twice", "thrice", "both")}  # noqa: PLR2004
"""Numbers in words that claim something; "one" and "half" are said without counting."""

_SCALE_WORDS = frozenset(("hundred", "thousand", "million", "dozen"))

_DATES = frozenset(
    (
        "january", "february", "march", "april", "june", "july", "august", "september", "october", "november",
        "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
    )
)  # fmt: skip
_NO_NAMES = frozenset(
    (
        "i", "i'm", "i'll", "i've", "i'd", "ok", "okay", "yes", "no", "mr", "mrs", "ms", "dr", "prof", "celsius",
        "fahrenheit", "kelvin", "internet", "english", "json", "html", "http", "https", "note", "summary", "today",
        "tomorrow", "yesterday", "please", "thanks", "may",
    )
)  # fmt: skip
"""Words with a capital that name no thing of the task."""

_SOMEBODY = frozenset(("he", "she", "it", "they", "we", "you", "who", "nobody", "somebody", "everybody", "one", "this"))

_ACRONYM = 3
"""Letters up to which a word in capitals is taken for a unit, a currency or a common abbreviation."""


_PLAIN = str.maketrans("\uff1a\uff01\uff1f\u2019", ":!?'")


def claims_in(text: str) -> list[Claim]:
    """Returns the figures and names of a text, each once, in order."""
    found: dict[str, Claim] = {}
    text = text[:LONGEST].translate(_PLAIN)
    for piece in _PIECE.finditer(text):
        for claim in _claims(piece, text):
            found.setdefault(claim.text.casefold(), claim)
        if len(found) >= MOST:
            break
    return list(found.values())


def _claims(piece: re.Match[str], text: str) -> list[Claim]:
    said, begins, ends = piece.group(), piece.start(), piece.end()
    before, after = text[max(0, begins - 40) : begins], text[ends : ends + 12]
    match piece.lastgroup:
        case "number":
            if _BULLET.search(before) and after[:1] in (".", ")"):
                return []  # it numbers a line
            return [_figure(said, said, after, rough=bool(_ROUGH.search(before)))]
        case "mixed":
            return [_mixed(said.rstrip(".:/-"), after, rough=bool(_ROUGH.search(before)))]
        case "joined":
            return [Claim("name", said.rstrip(".:/-"))]
        case "quote":
            inner = said[1:-1].strip()
            return [Claim("name", inner)] if re.search(r"\w", inner) else []
        case _:
            return _word(said, before, text[ends : ends + 20])


def _mixed(said: str, after: str, *, rough: bool) -> Claim:
    if ordinal := _ORDINAL.fullmatch(said):
        return _figure(said, ordinal.group(1), after, rough=rough)
    if unit := _WITH_UNIT.fullmatch(said):
        return _figure(said, unit.group(1), unit.group(2) if unit.group(2) in _SCALES else after, rough=rough)
    return Claim("name", said)


def _figure(said: str, digits: str, after: str, *, rough: bool) -> Claim:
    """Returns a number as a claim; a scale that follows it, such as million, is a part of it."""
    share = bool(re.match(r"\s*(?:%|percent\b|per cent\b)", after)) or said.endswith("%")
    scale = re.match(r"[kKM]\b|\s*(?:thousand|million|billion|bn)\b", after)
    factor = _SCALES[scale.group().strip()] if scale else 1.0
    values = readings(digits)
    decimals = max((len(str(v).partition(".")[2]) for v in values if v != int(v)), default=0)
    decimals = max(decimals, len(digits.rpartition(".")[2]) if re.fullmatch(r"\d+\.\d+", digits) else 0)
    if scale:
        return Claim("figure", f"{said} {scale.group().strip()}", tuple(v * factor for v in values), -2, rough=True)
    return Claim("figure", said, values, decimals, rough=rough, share=share)


def readings(digits: str) -> tuple[float, ...]:
    """Returns what a number in digits can mean, with a point, a comma or neither as its decimal sign."""
    plain = re.sub(r"['\u00a0\u202f]", "", digits)
    found = []
    for thousands, decimal in ((",", "."), (".", ",")):
        text = plain.replace(thousands, "").replace(decimal, ".")
        if text.count(".") <= 1 and len(text) < 40:  # noqa: PLR2004 - longer ones are no figures
            found.append(float(text))
    return tuple(dict.fromkeys(found))


def _word(said: str, before: str, after: str) -> list[Claim]:
    said = re.sub(r"'s$", "", said).rstrip("'-")
    plain = said.casefold()
    if plain in _WRITTEN:
        if plain in _SCALE_WORDS and re.search(r"(?:\d|\b(?:a|one|few|several|many))\s*$", before):
            return []  # it belongs to the number before it, or counts nothing
        return [Claim("figure", said, (float(_WRITTEN[plain]),))]
    if plain in _DATES:
        return [Claim("date", said)]
    if plain in _NO_NAMES or said == plain:
        return []
    begins = not re.search(r"\w", before) or bool(_START.search(before) and not _TITLE.search(before))
    if said.isupper():
        letter = len(said) == 1 and said not in "AI" and not begins
        return [Claim("name", said)] if len(said) > _ACRONYM or letter else []
    is_name = any(c.isupper() for c in said[1:]) or (plain not in _SOMEBODY and bool(_DOES.match(after)))
    return [] if begins and not is_name else [Claim("name", said)]
