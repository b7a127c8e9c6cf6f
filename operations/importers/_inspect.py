"""The format `inspect_ai`: logs of evaluations, `.eval` and `.json`; a sample in an epoch becomes a Record."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operations.importers._export_rows import Damage, RawRow
from operations.importers._folders import ExportFile, Found, full_path, names_in
from operations.importers._grouping import groups
from operations.importers._inspect_logs import Log, archive_rows, document_rows, header_of, is_log
from operations.importers._inspect_records import RecordMaker, pointed, typed_score
from operations.importers._inspect_samples import marks_of
from operations.importers._inspect_zip import HEADER, LogArchive
from operations.importers._intake import Filed
from operations.importers._json_values import NotFinite, dumps, parse
from operations.importers._mapping import check_mappings, left_out, not_used
from operations.importers._sorting import Sorter
from operations.importers._source import Feed, Format, Options, Sample, Suggestion
from operations.importers._streams import Opened, format_of, opened
from operations.importers._tally import Tally
from storage.masking import Masker
from storage.schema.traces import Completeness

ENDING = ".eval"
_KEPT = (
    "eval_id", "run_id", "created", "task", "task_id", "task_version", "task_args", "model", "model_args", "solver",
    "revision", "packages", "config", "dataset", "tags", "metadata",
)  # fmt: skip
"""What each Record repeats of its run."""


class Inspect:
    """Logs of inspect_ai; see `_source.Source`."""

    roles = ("sample",)
    profile = "inspect_ai"

    def __init__(self, options: Options) -> None:
        """Keeps the options.

        Raises:
            MappingNotRead: There is a mapping, and a log needs none.
        """
        check_mappings("inspect_ai", options.mappings, ((), (), ()))
        self._options = options
        self._logs: dict[str, Log] = {}
        self._partial = False

    def find(self, path: str) -> Found:
        """Returns the logs; other files are named and left alone.

        Raises:
            EvidenceRefused: There is nothing at the path, or `file_roles` names what is not there.
        """
        names = names_in(path)
        ignored = left_out(path, names, self._options)
        found = Found(warnings=not_used("inspect_ai", self._options, roots=False))
        for name in names:
            file = full_path(path, name)
            if name not in ignored and (file == path or (not os.path.islink(file) and _is_log(file))):
                found.files.append(ExportFile(file, name, 0))
            else:
                found.skipped.append(name)
        return found

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields the samples of a log, in the one form."""
        log = self._logs[file.name] = Log()
        if file.path.lower().endswith(ENDING):
            return archive_rows(opened.path, log)
        return document_rows(opened, log)

    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each sample in each epoch, in the order of their ids.

        Raises:
            ValuesConflict: Two logs say different things about one sample.
            TraceTooLarge: A sample is more than is put together in memory.
        """
        sorter = Sorter(feed.runs)
        files = [file.name for file in feed.found.files]
        headers: list[dict[str, Any]] = []
        try:
            for number, name in enumerate(files):
                found = 0
                for row in feed.rows(number):
                    if why := _unusable(row.value):
                        feed.damage(number, Damage(row.number, row.line, why))
                    else:
                        found += 1
                        sorter.add(_filed(feed, number, row, self._logs[name]))
                headers.append(self._told(feed, name, found))
            maker = RecordMaker(self._options.namespace, files, headers, feed.tally)
            for rows in groups(sorter):
                yield maker.record([Filed._make(row) for row in rows])
        finally:
            sorter.close()
        told: set[bytes] = set()
        for name, header in zip(files, headers, strict=True):
            for score in _totals(self._logs[name], header, name):
                masked, _ = feed.guard.masked(score, None)
                same = hashlib.sha256(dumps({**masked, "locator": None})).digest()
                if same not in told:
                    told.add(same)
                    feed.loose(masked)

    def _told(self, feed: Feed, name: str, found: int) -> dict[str, Any]:
        """Notes what a log says of its own completeness. Returns what its Records repeat of it, masked."""
        log = self._logs[name]
        tally = feed.tally
        status = str(feed.guard.text(str(log.header.get("status") or "unknown")[:20]))
        tally.counts["logs"] += 1
        if status != "success":
            self._partial = True
            tally.warn(f"a log has the status {status}, so samples may be missing", name)
        expected = _expected(log)
        if expected is not None and expected > found:
            self._partial = True
            tally.counts["samples_missing"] += expected - found
            tally.warn("samples that a log names are not in it", f"{name} has {found} of {expected}")
        if log.replaced:
            tally.warn("a log holds a member more than once; the last counts", f"{name}, {log.replaced} times")
        if log.header.get("invalidated"):
            tally.warn("somebody declared samples of a log invalid", name)
        kept = {one: log.spec[one] for one in _KEPT if log.spec.get(one) not in (None, {}, [])}
        if isinstance(dataset := kept.get("dataset"), Mapping):
            kept["dataset"] = {one: value for one, value in dataset.items() if one != "sample_ids"}
        error = log.header.get("error")
        if isinstance(error, Mapping):
            kept["error"] = error.get("message")
        masked, _ = feed.guard.masked({**kept, "status": status}, None)
        return masked

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns what was kept of each field of a sample."""
        return tally.outcomes()

    def completeness(self, *, partial: bool) -> Completeness:
        """A log that did not end in success, or lacks samples that it names, is partial."""
        return "partial" if partial or self._partial else "unknown"


def _is_log(path: str) -> bool:
    if path.lower().endswith(ENDING):
        return True
    if format_of(path) != "json":
        return False
    with opened(path) as file:
        return header_of(file) is not None


def _unusable(sample: Mapping[str, Any]) -> str | None:
    epoch = sample.get("epoch")
    if not isinstance(sample.get("id"), str | int) or isinstance(sample["id"], bool) or sample["id"] == "":
        return "the sample has no id"
    return None if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch > 0 else "the sample has no epoch"


def _filed(feed: Feed, file: int, row: RawRow, log: Log) -> tuple[Any, ...]:
    """Returns a sample as it is sorted, in the order of `Filed`, masked: by id, epoch, and what makes it itself."""
    sample = row.value
    given = sample["id"]
    name = f"{given:020d}" if isinstance(given, int) else f"s{given}"
    own = sample.get("uuid") or log.spec.get("eval_id") or ""
    key = "\0".join((name, f"{sample['epoch']:010d}", str(own))).encode("utf-8", "surrogatepass")
    marks = marks_of(sample)
    _, payload = feed.guard.masked(sample, None)
    said = dumps(marks).decode() if marks else None
    return (key, 0, row.number, file, row.number, None, row.pointer, 0, said, payload)


def _expected(log: Log) -> int | None:
    """How many samples there should be: as the results count them, else as the summaries name them."""
    results = log.header.get("results")
    total = results.get("completed_samples") if isinstance(results, Mapping) else None
    counts = [count for count in (total, log.sample_names) if isinstance(count, int)]
    return max(counts, default=None)


def _totals(log: Log, header: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yields what the log says of several samples together: metrics of the run, and scores over the epochs of one."""
    results = log.header.get("results")
    scores = results.get("scores") if isinstance(results, Mapping) else None
    common: dict[str, Any] = {"id": None, "comment": None, "locator": {"file": name, "row": 1}}
    for place, score in enumerate(scores if isinstance(scores, list) else ()):
        metrics = score.get("metrics") if isinstance(score, Mapping) else None
        for metric, said in metrics.items() if isinstance(metrics, Mapping) else ():
            own = said if isinstance(said, Mapping) else {"value": said}
            rest = {k: v for k, v in score.items() if k not in ("metrics", "name") and v not in (None, {}, [])}
            locator = {**common["locator"], "pointer": f"/results/scores/{place}/metrics/{pointed(metric)}"}
            yield {
                **common,
                "name": f"{score.get('name')}/{metric}",
                **_plain(own.get("value")),
                "subject_kind": "dataset_run",
                "subject_id": str(header.get("eval_id")),
                "attributes": rest,
                "locator": locator,
            }
    for place, reduced in enumerate(log.reductions):
        samples = reduced.get("samples") if isinstance(reduced, Mapping) else None
        for number, one in enumerate(samples if isinstance(samples, list) else ()):
            if not isinstance(one, Mapping):
                continue
            about = {k: v for k, v in reduced.items() if k != "samples" and v is not None}
            rest = {k: v for k, v in one.items() if k not in ("value", "explanation") and v not in (None, [])}
            yield {
                **common,
                "name": str(reduced.get("scorer")),
                **_plain(one.get("value")),
                "subject_kind": "unknown",
                "subject_id": str(one.get("sample_id")),
                "attributes": {**about, **rest, "over": "epochs"},
                "locator": {**common["locator"], "pointer": f"/reductions/{place}/samples/{number}"},
            }


def _plain(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return typed_score(value, wrong=isinstance(value, NotFinite))


def _sampled(opened: Opened) -> Iterator[RawRow | Damage]:
    """Yields what a `.eval` file says of itself."""
    with LogArchive(opened.path) as archive:
        names = archive.names
        name = HEADER if HEADER in names else "_journal/start.json"
        try:
            value, plain = parse(archive.read(name))
        except (ValueError, RecursionError) as error:
            yield Damage(1, None, f"{name}: {error}")
        else:
            yield RawRow(1, None, f"/{name}", {"status": "started", **value}, None, plain)


def _role_of(row: RawRow) -> int | None:
    return 0 if is_log(row.value) else None


def _suggest(
    found: Suggestion, path: str, samples: Sequence[Sample], looked: Mapping[str, int | None], masker: Masker
) -> None:
    del path
    found.fits = {name: "sample" if role is not None else "ignore" for name, role in looked.items()}
    found.request = {"source_kind": "inspect_ai"}
    told = []
    for sample in samples:
        for row in sample.rows:
            if _role_of(row) is not None:
                status = row.value.get("status", "status unknown")
                told.append(f"{row.value['eval'].get('task', 'a task without a name')} ({status})")
                if status != "success":
                    found.unknown.append(f"samples that were not over when {sample.name} was written")
    found.message = str(masker.text(f"Logs of inspect_ai: {', '.join(told)[:300]}. Send the request in next."))


FORMAT = Format(kind="inspect_ai", open=Inspect, role_of=_role_of, suggest=_suggest, endings=(ENDING,), rows=_sampled)
