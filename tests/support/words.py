"""Tells which drawn texts stay as they are when they are stored: the generators also draw names such as Passphrase."""

from __future__ import annotations

from storage.masking import Masker

_MASKER = Masker(b"k" * 32)


def is_plain(text: str) -> bool:
    """Whether a text is masked neither as a value nor as the name of one."""
    return bool(_MASKER.value({text: "a value", "said": text}) == {text: "a value", "said": text})
