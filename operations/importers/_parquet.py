"""Reads the rows of a Parquet file, some at a time, each as JSON would say it and no number changed."""

from __future__ import annotations

import base64
import importlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from operations.importers._json_values import NotFinite
from operations.importers._raw_rows import Damage, RawRow, check_names
from operations.importers._rows import MAX_DEPTH
from operations.importers._streams import FREE_BYTES, EvidenceRefused, Opened, UnpacksTooFar

AT_ONCE = 64
"""Rows that are read together."""

MAX_RATIO = 1_000
"""Bytes of values for each of the file's, beyond `FREE_BYTES`: a value that is repeated costs a file nothing."""

BUFFER = 1 << 20
"""Bytes of each column that are read at a time."""

_METADATA = 64 * 1024 * 1024
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MICROSECOND_DIGITS = 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True, eq=False)
class ParquetMissing(EvidenceRefused):
    """Reading Parquet needs a package that is not installed."""

    message = (
        "{path} is a Parquet file, and the package pyarrow is not installed. Nothing was stored. Install it with "
        "`pip install 'atk-mcp[parquet]'`, or export JSON Lines."
    )

    path: str


@dataclass(kw_only=True, eq=False)
class ParquetUnreadable(EvidenceRefused):
    """A file is no Parquet, or is damaged."""

    message = "{path} cannot be read as Parquet: {reason}. Nothing was stored. Export it again."

    path: str
    reason: str


class Bytes(NotFinite):
    """Bytes that are no text: their base64. Like a number that is none it counts as unparsable."""

    __slots__ = ()


def parquet_rows(opened: Opened) -> Iterator[RawRow | Damage]:
    """Yields the rows, in memory that grows with `AT_ONCE` rows and not with the file.

    Integers come as they are, decimals and times as text to their last digit, bytes as text where they are UTF-8 and
    as `Bytes` where not, maps as objects where their keys are texts.

    Raises:
        ParquetMissing: pyarrow is not installed.
        ParquetUnreadable: The file is damaged.
        TooManyColumns: It has too many columns.
        HeaderUnusable: Columns cannot be told apart.
        UnpacksTooFar: Its values are far more than its bytes.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ParquetMissing(path=opened.path) from None
    number = 0
    try:
        with parquet.ParquetFile(
            arrow.PythonFile(_Beside(opened), mode="r"),
            buffer_size=BUFFER,
            pre_buffer=False,
            thrift_string_size_limit=_METADATA,
            thrift_container_size_limit=_METADATA // 64,
        ) as file:
            schema = file.schema_arrow
            check_names(opened.path, list(schema.names))
            columns = [_reader(arrow, _plain(arrow, kind)) for kind in schema.types]
            limit = max(FREE_BYTES, MAX_RATIO * opened.counted.size)
            for batch in file.iter_batches(AT_ONCE):
                plain = [
                    one.dictionary_decode() if arrow.types.is_dictionary(one.type) else one for one in batch.columns
                ]
                opened.unpacked += sum(one.nbytes for one in plain)
                if opened.unpacked > limit:
                    raise UnpacksTooFar(path=opened.path, ratio=MAX_RATIO)
                cells = [read(column) for read, column in zip(columns, plain, strict=True)]
                for row in zip(*cells, strict=True):
                    number += 1
                    yield RawRow(number, None, None, dict(zip(schema.names, row, strict=True)), None, plain=False)
    except (arrow.ArrowException, OSError, MemoryError, UnicodeDecodeError, ValueError) as error:
        reason = f"after row {number}, {error}" if number else str(error)
        raise ParquetUnreadable(path=opened.path, reason=" ".join(reason.split())[:300]) from None


def _plain(arrow: Any, kind: Any) -> Any:  # noqa: ANN401 - see _reader
    return kind.value_type if arrow.types.is_dictionary(kind) else kind


class _Beside(io.RawIOBase):
    """The file read by places, without moving what is hashed."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self._counted = opened.counted
        self._place = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves; see `io.IOBase.seek`."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._counted.size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def tell(self) -> int:
        """Where it stands."""
        return self._place

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns the bytes from where it stands; see `io.RawIOBase.read`."""
        left = max(0, self._counted.size - self._place)
        found: list[bytes] = []
        wanted = left if size is None or size < 0 else min(size, left)
        while wanted and (some := self._counted.at(self._place, wanted)):
            found.append(some)
            self._place += len(some)
            wanted -= len(some)
        return b"".join(found)


# -- values ------------------------------------------------------------------------------------------------------------

Reader = Callable[[Any], list[Any]]
"""Returns the JSON values of a column of Arrow's."""


def _reader(arrow: Any, kind: Any, depth: int = 0) -> Reader:  # noqa: ANN401, C901 - one case for each kind
    """Returns what reads a column of this type."""
    types = arrow.types
    if depth > MAX_DEPTH:
        raise ValueError(f"it nests deeper than {MAX_DEPTH}")
    if isinstance(kind, arrow.BaseExtensionType):
        return _of_extension(arrow, kind, depth)
    if types.is_dictionary(kind):
        inner = _reader(arrow, kind.value_type, depth)
        return lambda column: inner(column.dictionary_decode())
    if types.is_struct(kind):
        return _of_struct(arrow, kind, depth)
    if types.is_map(kind):
        return _of_map(arrow, kind, depth)
    if types.is_fixed_size_list(kind):
        as_list = arrow.large_list(kind.value_field)
        inner = _of_list(arrow, kind, depth)
        return lambda column: inner(column.cast(as_list))
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_list(arrow, kind, depth)
    if any(is_bytes(kind) for is_bytes in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)):
        return lambda column: [_text(value) for value in column.to_pylist()]
    if types.is_string(kind) or types.is_large_string(kind):
        as_bytes = arrow.large_binary()
        return lambda column: [_text(value) for value in column.cast(as_bytes).to_pylist()]
    if types.is_floating(kind):
        return lambda column: [_number(value) for value in column.to_pylist()]
    if types.is_decimal(kind):
        return lambda column: [value if value is None else format(value, "f") for value in column.to_pylist()]
    if types.is_temporal(kind):
        return _of_time(arrow, kind)
    return lambda column: list(column.to_pylist())


def _of_extension(arrow: Any, kind: Any, depth: int) -> Reader:  # noqa: ANN401 - see _reader
    if kind.extension_name == "arrow.uuid":
        return lambda column: [value if value is None else str(value) for value in column.to_pylist()]
    inner = _reader(arrow, kind.storage_type, depth)
    return lambda column: inner(column.storage)


def _of_struct(arrow: Any, kind: Any, depth: int) -> Reader:  # noqa: ANN401 - see _reader
    names = [kind.field(place).name for place in range(kind.num_fields)]
    if len(set(names)) != len(names):
        raise ValueError("a structure has two fields of one name")
    readers = [_reader(arrow, kind.field(place).type, depth + 1) for place in range(kind.num_fields)]

    def read(column: Any) -> list[Any]:  # noqa: ANN401 - see _reader
        there = column.is_valid().to_pylist()
        if not names:
            return [{} if valid else None for valid in there]
        cells = [one(inner) for one, inner in zip(readers, column.flatten(), strict=True)]
        rows = zip(there, zip(*cells, strict=True), strict=True)
        return [dict(zip(names, row, strict=True)) if valid else None for valid, row in rows]

    return read


def _of_list(arrow: Any, kind: Any, depth: int) -> Reader:  # noqa: ANN401 - see _reader
    inner = _reader(arrow, kind.value_type, depth + 1)
    return lambda column: _cut(column, inner(_used(column, column.values)))


def _of_map(arrow: Any, kind: Any, depth: int) -> Reader:  # noqa: ANN401 - see _reader
    keys, items = _reader(arrow, kind.key_type, depth + 1), _reader(arrow, kind.item_type, depth + 1)

    def read(column: Any) -> list[Any]:  # noqa: ANN401 - see _reader
        pairs = zip(keys(_used(column, column.keys)), items(_used(column, column.items)), strict=True)
        return [None if found is None else _object(found) for found in _cut(column, list(pairs))]

    return read


def _used(column: Any, values: Any) -> Any:  # noqa: ANN401 - see _reader
    """Returns the values that the column's own part refers to."""
    offsets = column.offsets
    first = offsets[0].as_py()
    return values.slice(first, offsets[len(column)].as_py() - first)


def _cut(column: Any, values: list[Any]) -> list[list[Any] | None]:  # noqa: ANN401 - see _reader
    offsets = column.offsets.to_pylist()
    first = offsets[0]
    return [
        values[offsets[place] - first : offsets[place + 1] - first] if valid else None
        for place, valid in enumerate(column.is_valid().to_pylist())
    ]


def _object(pairs: list[tuple[Any, Any]]) -> Any:  # noqa: ANN401 - JSON
    """Returns an object, or pairs where keys are no texts or stand there twice."""
    found = dict(pairs) if all(type(key) is str for key, _ in pairs) else {}
    return found if len(found) == len(pairs) else [{"key": key, "value": value} for key, value in pairs]


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Bytes(base64.b64encode(value).decode("ascii"))


def _number(value: float | None) -> float | NotFinite | None:
    if value is None or value - value == 0:
        return value
    return NotFinite("NaN" if value != value else "Infinity" if value > 0 else "-Infinity")  # noqa: PLR0124 - only NaN


def _of_time(arrow: Any, kind: Any) -> Reader:  # noqa: ANN401 - see _reader
    types = arrow.types
    whole = arrow.int32() if types.is_date32(kind) or types.is_time32(kind) else arrow.int64()
    show: Callable[[int], str]
    if types.is_date32(kind):
        show = _day
    elif types.is_date64(kind):
        show = lambda count: _day(count // 86_400_000)  # noqa: E731 - one of five
    elif types.is_duration(kind):
        unit = kind.unit
        show = lambda count: f"{count}{unit}"  # noqa: E731
    elif types.is_time(kind):
        per_second = _PER_SECOND[kind.unit]
        show = lambda count: _instant(count, per_second, "")[11:]  # noqa: E731
    elif types.is_timestamp(kind):
        per_second, zone = _PER_SECOND[kind.unit], "Z" if kind.tz else ""
        show = lambda count: _instant(count, per_second, zone)  # noqa: E731
    else:
        return lambda column: [value if value is None else str(value) for value in column.to_pylist()]
    return lambda column: [value if value is None else show(value) for value in column.cast(whole).to_pylist()]


def _day(count: int) -> str:
    try:
        return date.fromordinal(_EPOCH.toordinal() + count).isoformat()
    except (ValueError, OverflowError):
        return NotFinite(f"{count} days")


def _instant(count: int, per_second: int, zone: str) -> str:
    """Returns a time as ISO 8601, with six digits of a second or, where it has more, with nine."""
    seconds, part = divmod(count, per_second)
    nanoseconds = part * (_PER_SECOND["ns"] // per_second)
    try:
        shown = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return NotFinite(f"{count}/{per_second} seconds")
    digits = f"{nanoseconds:09d}"
    return f"{shown}.{digits[:_MICROSECOND_DIGITS] if digits.endswith('000') else digits}{zone}"
