"""Parquet: every type comes as JSON would say it, exactly, in bounded memory; damage and bombs are refused."""

import datetime as dt
import decimal
import os
import sys
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.importers import _parquet
from operations.importers._export_rows import HeaderUnusable, TooManyColumns, rows_of
from operations.importers._json_values import NotFinite
from operations.importers._parquet import Bytes, ParquetMissing, ParquetUnreadable
from operations.importers._streams import UnpacksTooFar, opened


def written(path, table, **options):
    pq.write_table(table, path, **options)
    return str(path)


def read(path):
    with opened(str(path)) as file:
        return [row.value for row in rows_of(file)]


def column(path, values, kind):
    table = pa.table({"x": pa.array(values, kind)})
    return [row["x"] for row in read(written(path, table, row_group_size=3))]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int64(), [2**63 - 1, -(2**63), None], [2**63 - 1, -(2**63), None]),
        (pa.uint64(), [2**64 - 1, 0], [2**64 - 1, 0]),
        (pa.bool_(), [True, None], [True, None]),
        (pa.float64(), [0.1, None, 1e308], [0.1, None, 1e308]),
        (pa.string(), ["é", "", None], ["é", "", None]),
        (pa.large_string(), ["x"], ["x"]),
        (pa.decimal128(38, 10), [decimal.Decimal("12345678901234567890.0123456789"), None],
         ["12345678901234567890.0123456789", None]),
        (pa.decimal256(50, 0), [decimal.Decimal(10**49)], [str(10**49)]),
        (pa.date32(), [dt.date(2026, 2, 28), dt.date(1, 1, 1)], ["2026-02-28", "0001-01-01"]),
        (pa.time64("us"), [dt.time(1, 2, 3, 4)], ["01:02:03.000004"]),
        (pa.timestamp("us"), [1_772_240_523_000_004], ["2026-02-28T01:02:03.000004"]),
        (pa.timestamp("ms", "UTC"), [1_700_000_000_123], ["2023-11-14T22:13:20.123000Z"]),
        (pa.timestamp("ns"), [1_700_000_000_123_456_789, -1, None],
         ["2023-11-14T22:13:20.123456789", "1969-12-31T23:59:59.999999999", None]),
        (pa.duration("ms"), [1500], ["1500ms"]),
        (pa.list_(pa.int64()), [[1, None], [], None, [2**60]], [[1, None], [], None, [2**60]]),
        (pa.list_(pa.list_(pa.string())), [[["a"], None], [[]]], [[["a"], None], [[]]]),
        (pa.map_(pa.string(), pa.uint64()), [[("a", 1), ("b", 2**64 - 1)], [], None],
         [{"a": 1, "b": 2**64 - 1}, {}, None]),
        (pa.map_(pa.int64(), pa.string()), [[(1, "a")]], [[{"key": 1, "value": "a"}]]),
        (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
         [{"a": 1, "b": [{"c": "x"}, None]}, None, {"a": None, "b": None}],
         [{"a": 1, "b": [{"c": "x"}, None]}, None, {"a": None, "b": None}]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a", None], ["a", "b", "a", None]),
        (pa.binary(), [b"text", None, "é".encode()], ["text", None, "é"]),
        (pa.list_(pa.int32(), 2), [[1, 2], None, [3, 4]], [[1, 2], None, [3, 4]]),
        (pa.null(), [None, None], [None, None]),
    ],
)  # fmt: skip
def test_each_type_comes_back_exactly(tmp_path, kind, values, expected):
    assert column(tmp_path / "t.parquet", values, kind) == expected


def test_what_is_no_number_and_no_text_is_called_unparsable(tmp_path):
    numbers = column(tmp_path / "n.parquet", [float("nan"), float("inf"), -float("inf")], pa.float64())
    assert numbers == ["NaN", "Infinity", "-Infinity"]
    assert all(isinstance(number, NotFinite) for number in numbers)
    (packed,) = column(tmp_path / "b.parquet", [b"\xff\x00"], pa.binary())
    assert packed == "/wA="
    assert isinstance(packed, Bytes)


def test_a_uuid_is_its_text(tmp_path):
    one = uuid.UUID(int=7)
    assert column(tmp_path / "u.parquet", [one.bytes], pa.uuid()) == [str(one)]


def test_rows_have_their_numbers_across_row_groups_and_the_digest_is_the_whole_files(tmp_path):
    path = written(tmp_path / "t.parquet", pa.table({"id": list(range(1000))}), row_group_size=7)
    with opened(path) as file:
        rows = list(rows_of(file))
        file.counted.drain()
        assert file.counted.count == os.path.getsize(path)
    assert [(row.number, row.value["id"], row.line) for row in rows] == [(n + 1, n, None) for n in range(1000)]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "i": st.integers(-(2**63), 2**63 - 1),
                "t": st.one_of(st.none(), st.text(alphabet=st.characters(codec="utf-8"))),
                "l": st.lists(st.one_of(st.none(), st.integers(0, 9))),
                "m": st.dictionaries(
                    st.text(alphabet="abc", max_size=3), st.text(alphabet=st.characters(codec="utf-8"))
                ),
            }
        )
    ),
    st.sampled_from(("none", "snappy", "zstd", "gzip")),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_table_comes_back(tmp_path, rows, compression):
    schema = pa.schema({
        "i": pa.int64(), "t": pa.string(), "l": pa.list_(pa.int64()), "m": pa.map_(pa.string(), pa.string())
    })  # fmt: skip
    table = pa.Table.from_pylist([{**row, "m": list(row["m"].items())} for row in rows], schema)
    assert read(written(tmp_path / "t.parquet", table, row_group_size=2, compression=compression)) == rows


def test_without_its_package_it_says_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path / "t.parquet", pa.table({"id": [1]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParquetMissing, match=r"pip install 'atk-mcp\[parquet\]'"):
        read(path)


def test_a_file_that_is_cut_altered_or_none_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    whole = tmp_path / "w.parquet"
    written(whole, pa.table({"id": ["x" * 100] * 1000, "n": list(range(1000))}))
    data = whole.read_bytes()
    for raw in (b"", b"PAR1", b"not parquet at all", data[:-1], data[: len(data) // 2], data[len(data) // 2 :]):
        path.write_bytes(raw)
        with pytest.raises(ParquetUnreadable):
            read(path)


def test_too_many_columns_and_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(TooManyColumns):
        read(written(tmp_path / "w.parquet", pa.table({f"c{n}": [1] for n in range(5001)})))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(HeaderUnusable, match="more than once"):
        read(written(tmp_path / "d.parquet", twice))


def test_a_value_repeated_without_end_is_a_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(_parquet, "FREE_BYTES", 1 << 20)
    table = pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["y" * 1000])})
    with pytest.raises(UnpacksTooFar, match="1000 times"):
        read(written(tmp_path / "b.parquet", table))


def test_a_deeply_nested_type_is_refused(tmp_path):
    kind = pa.int64()
    for _ in range(150):
        kind = pa.list_(kind)
    with pytest.raises(ParquetUnreadable, match=r"nest|deep|level"):
        column(tmp_path / "d.parquet", [None], kind)
