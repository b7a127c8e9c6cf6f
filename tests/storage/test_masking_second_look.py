"""The second look: what betterleaks finds beyond the rules is masked too, and nothing else is touched."""

import json
import sys

import pytest

from storage.masking import MASK, Masker, SecondLookMissing, require_second_look

KEY = b"k" * 32
AGE = "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQQPZRY9X8GF2TVDW0S3JN54KH"
"""A form that only the scanner knows."""

MASKER = Masker(KEY, second_look=True)


def test_what_only_the_scanner_knows_is_masked_in_text_and_json():
    assert AGE in Masker(KEY).text(f"key {AGE} here")
    assert MASK.sub("*", MASKER.text(f"key {AGE} here")) == "key * here"
    nested = json.dumps({"deep": json.dumps({"x": AGE, "n": 3})})
    masked = MASKER.value({"a": [nested, AGE], AGE: {"tokens": 17}})
    assert AGE not in json.dumps(masked)
    assert json.loads(json.loads(masked["a"][0])["deep"])["n"] == 3
    assert masked["a"][1] == MASKER.mask(AGE)
    assert masked[MASKER.mask(AGE)] == {"tokens": 17}


def test_masks_hashes_ids_and_counters_stay():
    value = {
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "usage": {"input": 120, "key": "9a8b7c6d5e4f3a2b"},
        "text": f"api_key=[masked:credential:9f8e7d6c] {MASKER.mask(AGE)}",
    }
    assert MASKER.value(value) == value


def test_lines_are_scanned_together_and_counted():
    masker = Masker(KEY, second_look=True)
    look = masker.second_look
    blocks = [[json.dumps({"n": n, "x": AGE if n == 7 else "plain"}).encode() + b"\n"] for n in range(40)]
    found = list(look.lines(iter(blocks)))
    assert [len(block) for block in found] == [1] * 40
    assert look.count == 1
    assert json.loads(found[7][0]) == {"n": 7, "x": masker.mask(AGE)}
    assert found[:7] + found[8:] == blocks[:7] + blocks[8:]


def test_a_nul_and_half_a_surrogate_pair_hide_nothing():
    assert AGE not in MASKER.text(f"a\0b \ud800 {AGE} c")
    assert AGE not in json.dumps(MASKER.value({"x": f"a\0b \ud800 {AGE}"}))


def test_without_the_package_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "betterleaks", None)
    with pytest.raises(SecondLookMissing, match=r"pip install 'atk-mcp\[secrets\]'"):
        require_second_look()
    with pytest.raises(SecondLookMissing):
        Masker(KEY, second_look=True).text("x")
