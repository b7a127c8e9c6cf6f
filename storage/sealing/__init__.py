"""Keeps what must stay unseen encrypted at rest, under a key that lies outside the project's folder."""

from storage.sealing._boxes import SealBroken, SealKey, key_id_of
from storage.sealing._keys import (
    KEY_HOME,
    HoldoutKeyMissing,
    HoldoutKeyUnusable,
    OtherKeyThere,
    exported,
    imported,
    key_home,
    key_path,
    known_keys,
    load_key,
    made_or_known,
    read_key,
)

__all__ = [
    "KEY_HOME",
    "HoldoutKeyMissing",
    "HoldoutKeyUnusable",
    "OtherKeyThere",
    "SealBroken",
    "SealKey",
    "exported",
    "imported",
    "key_home",
    "key_id_of",
    "key_path",
    "known_keys",
    "load_key",
    "made_or_known",
    "read_key",
]
