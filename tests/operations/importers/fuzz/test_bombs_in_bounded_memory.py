"""Bombs of every kind are refused, or read in pieces, by a process that may take no more than a bounded memory."""

import gzip
import json
import multiprocessing
import os
import resource

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from operations.importers._intake import Guard
from operations.importers._results import Columns
from operations.importers._source import Options
from operations.importers.evidence import EvidenceImport
from operations.importers.sources import FORMATS, open_source
from storage.errors import AtkError
from storage.masking import Masker

MIB = 1 << 20
BOUND = 640 * MIB
"""What an import may take beside the process that it starts in: one line of 16 MiB is held some ten times over."""

PROFILES = {"langfuse": "langfuse_observation_rows"}
ROW = b'{"id":"o-1","traceId":"t","name":"n","startTime":"2026-01-01T00:00:00Z","output":"a",'


def lines(count):
    return b"".join(b'{"id":"o-%d","traceId":"t-%d","answer":"%s"}\n' % (n, n, b"w" * 900) for n in range(count))


BOMBS = {
    "depth.jsonl": lambda: ROW + b'"input":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
    "depth.json": lambda: b"[" * 1_000_000,
    "objects.json": lambda: b'{"a":' * 500_000 + b"1" + b"}" * 500_000,
    "depth_in_text.jsonl": lambda: ROW + b'"input":' + json.dumps("[" * 200_000).encode() + b"}\n",
    "key.jsonl": lambda: ROW + b'"' + b"k" * (4 * MIB) + b'":1}\n',
    "keys.jsonl": lambda: ROW + b",".join(b'"k%d":1' % n for n in range(500_000)) + b"}\n",
    "columns.csv": lambda: b",".join(b"c%d" % n for n in range(1_000_000)) + b"\n" + b"1," * 999_999 + b"1\n",
    "quote.csv": lambda: b'id,answer\n1,"' + b"x" * (40 * MIB),
    "line.jsonl": lambda: ROW + b'"input":"' + b"x" * (40 * MIB) + b'"}\n',
    "no_end.json": lambda: b'[{"id":"' + b"x" * (40 * MIB),
    "digits.jsonl": lambda: ROW + b'"input":' + b"9" * 1_000_000 + b"}\n",
    "escapes.jsonl": lambda: ROW + b'"input":"' + b"\\ud83d" * 500_000 + b'"}\n',
    "items.json": lambda: b"[" + b"1," * (10 * MIB) + b"1]",
    "bomb.jsonl.gz": lambda: gzip.compress(b" " * (256 * MIB), 1),
    "bomb.json.gz": lambda: gzip.compress(b"[" + b" " * (256 * MIB), 1),
    "bomb.csv.gz": lambda: gzip.compress(b"a,b\n" + (b"1," + b" " * 8000 + b"\n") * 20_000, 6),
    "bomb.jsonl.zst": lambda: zstandard.ZstdCompressor().compress(b" " * (1024 * MIB)),
    "window.jsonl.zst": lambda: zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    ).compress(lines(2000)),
    "frames.jsonl.zst": lambda: zstandard.ZstdCompressor().compress(b"") * 500_000,
    "whole.jsonl": lambda: lines(5_000),
}
TABLES = {
    "one_value.parquet": lambda: pa.table({
        "id": [str(n) for n in range(20_000)],
        "answer": pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["y" * (1 * MIB)]),
    }),
    "columns.parquet": lambda: pa.table({f"c{n}": pa.array([1], pa.int8()) for n in range(6_000)}),
    "group.parquet": lambda: pa.table({"id": [str(n) for n in range(50_000)], "answer": ["ab" * 900] * 50_000}),
}  # fmt: skip


def bounded(kind, path, folder, answer):
    """Imports within the bound, and sends how that ended and the memory that it took."""
    with open("/proc/self/statm", encoding="ascii") as file:
        here = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (here + BOUND, here + BOUND))
    options = Options(columns=Columns(output="answer"), adapter_profile=PROFILES.get(kind))
    try:
        reader = open_source(kind, options)
        guard = Guard(Masker(b"k" * 32))
        reading = EvidenceImport(path=path, source=reader, found=reader.find(path), guard=guard, runs=f"{folder}/runs")
        ended = f"{sum(1 for _ in reading.records(lambda _: None))} records"
    except AtkError as error:
        ended = f"{error.code}: {error}"[:1000]
    answer.send(ended)


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    for name, made in BOMBS.items():
        (folder / name).write_bytes(made())
    for name, made in TABLES.items():
        pq.write_table(made(), folder / name)
    return folder


KINDS = sorted(FORMATS)
EVERY = [(kind, name) for name in (*BOMBS, *TABLES) for kind in KINDS]
SAMPLE = [(KINDS[n % len(KINDS)], name) for n, name in enumerate((*BOMBS, *TABLES))]
"""Each bomb for one kind of source; with ATK_EVERY_BOMB=1 each of them for all: some take minutes."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), EVERY if os.environ.get("ATK_EVERY_BOMB") == "1" else SAMPLE)
def test_a_bomb_ends_in_records_or_a_refusal_within_the_bound(bombs, tmp_path, kind, name):
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=bounded, args=(kind, str(bombs / name), str(tmp_path), sender))
    process.start()
    sender.close()
    try:
        ended = receiver.recv()
    except EOFError:
        process.join()
        pytest.fail(f"ended with {process.exitcode} and without a word")
    process.join()
    assert ended.endswith((" records", ".", "!", "?")) or len(ended) == 1000
    if name.startswith("bomb"):
        assert not ended.endswith(" records"), ended


@pytest.mark.parametrize(("kind", "name"), [
    ("langfuse", "depth.jsonl"), ("langfuse", "key.jsonl"), ("batch_results", "columns.csv"),
    ("batch_results", "bomb.jsonl.gz"), ("batch_results", "bomb.jsonl.zst"), ("batch_results", "one_value.parquet"),
])  # fmt: skip
def test_the_worst_of_them_at_every_run(bombs, tmp_path, kind, name):
    test_a_bomb_ends_in_records_or_a_refusal_within_the_bound(bombs, tmp_path, kind, name)
