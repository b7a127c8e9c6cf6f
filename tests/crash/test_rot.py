"""A view that rots is made again; a large file or a journal that rots is named, left, and not built on."""

from __future__ import annotations

import os
import random

import pytest

from tests.crash.conftest import SEED
from tests.support.crashloop.rotting import Rot

pytestmark = pytest.mark.slow

FILES = int(os.environ.get("ATK_ROTTEN_FILES", "3"))
"""Files of each kind that rot; 0: all."""


def test_whatever_rots_is_healed_or_named(ladder, tmp_path, all_is_well):
    rot = Rot(str(tmp_path), ladder)
    kinds = {}
    for path in rot.files():
        kinds.setdefault(rot.kind(path), []).append(path)
    assert set(kinds) == {"view", "journal", "large file", "other"}
    numbers = random.Random(SEED)
    chosen = [
        p for paths in kinds.values() for p in (numbers.sample(paths, min(FILES, len(paths))) if FILES else paths)
    ]
    assert all_is_well(rot.trials(chosen)) > len(chosen)
