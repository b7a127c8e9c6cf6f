"""Packed exports: several members or frames are one file, half of one is damage, and a bomb is told by its ratio."""

import gzip
import hashlib
import os

import pytest
import zstandard

from operations.importers._export_rows import rows_of
from operations.importers._streams import (
    ExportFormatUnknown,
    PackedFileDamaged,
    UnpacksTooFar,
    format_of,
    opened,
)

LINES = [b'{"id":"%d","text":"%s"}\n' % (n, b"w" * (n % 50)) for n in range(5000)]
RAW = b"".join(LINES)


def zst(raw, **options):
    return zstandard.ZstdCompressor(**options).compress(raw)


def ids(path):
    with opened(str(path)) as file:
        return [row.value["id"] for row in rows_of(file)]


@pytest.fixture
def packed(tmp_path):
    def packed(name, raw):
        path = tmp_path / name
        path.write_bytes(raw)
        return path

    return packed


ALL = [str(n) for n in range(5000)]
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00note"


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("x.jsonl.gz", gzip.compress(RAW)),
        ("x.jsonl.gz", b"".join(map(gzip.compress, (RAW[:1000], RAW[1000:70_001], RAW[70_001:])))),
        ("x.jsonl.zst", zst(RAW)),
        ("x.jsonl.zst", b"".join(map(zst, (RAW[:1000], RAW[1000:70_001], b"", RAW[70_001:])))),
        ("x.jsonl.zst", b"".join(map(zst, LINES))),
        ("x.jsonl.zst", SKIPPABLE + zst(RAW) + SKIPPABLE),
        ("X.NDJSON.ZST", zst(RAW, level=19, write_checksum=True, write_content_size=False)),
    ],
)
def test_every_member_and_frame_is_read_and_the_digest_is_the_packed_files(packed, name, raw):
    path = packed(name, raw)
    assert ids(path) == ALL
    with opened(str(path)) as file:
        assert b"".join(file.chunks()) == RAW
        file.counted.drain()
        assert file.counted.sha256 == hashlib.sha256(raw).hexdigest()
        assert file.counted.count == os.path.getsize(path)


@pytest.mark.parametrize("cut", [1, 5, 500, -5, -1])
@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".zst", zst)])
def test_half_a_member_or_frame_is_damage(packed, ending, pack, cut):
    with pytest.raises(PackedFileDamaged):
        ids(packed(f"x.jsonl{ending}", pack(RAW)[:cut]))
    with pytest.raises(PackedFileDamaged):
        ids(packed(f"x.jsonl{ending}", pack(RAW) + pack(RAW)[:cut]))


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".zst", lambda raw: zst(raw, write_checksum=True))]
)
def test_altered_and_foreign_bytes_are_damage(packed, ending, pack):
    whole = pack(RAW)
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 0xFF
    for raw in (bytes(altered), b"no such thing", whole + b"something after it"):
        with pytest.raises(PackedFileDamaged):
            ids(packed(f"x.jsonl{ending}", raw))


def test_an_empty_packed_file_holds_nothing(packed):
    assert ids(packed("x.jsonl.zst", b"")) == []
    assert ids(packed("x.jsonl.gz", b"")) == []


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".zst", zst)])
def test_a_bomb_is_told_by_its_ratio_and_an_export_as_large_is_not(packed, ending, pack):
    with pytest.raises(UnpacksTooFar, match="200 times"):
        ids(packed(f"bomb.jsonl{ending}", pack(b" " * (80 << 20))))
    path = packed(f"honest.jsonl{ending}", pack(b" " * (60 << 20)))
    with opened(str(path)) as file:
        assert sum(map(len, file.chunks())) == 60 << 20


def test_a_bomb_is_noticed_before_more_than_a_few_pieces_of_it_are_unpacked(packed):
    with opened(str(packed("bomb.jsonl.zst", zst(b" " * (1 << 30))))) as file:
        with pytest.raises(UnpacksTooFar):
            list(file.chunks())
        assert file.unpacked < 256 << 20


def test_formats_are_told_by_names_in_any_case_and_parquet_is_packed_by_itself(packed):
    names = {"a.JSON": "json", "a.ndjson.zst": "jsonl", "a.csv.GZ": "csv", "a.parquet": "parquet", "a.parquet.gz": None}
    assert {name: format_of(name) for name in names} == names
    with pytest.raises(ExportFormatUnknown, match=r"or \.parquet"):
        ids(packed("a.parquet.gz", b""))
