"""Finding in 100,000 Records and making Cases of half of them takes memory for ids and not for Records."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
from operations.importers import stored
from storage.schema.traces import ImportedBatch
from tests.support.imports import Imports
from tests.support.projects import AT, call_of
from tests.support.rounds import Answered

def record(n):
    return {
        "source": {"namespace": "ns", "trace_id": f"t-{n}", "session_id": f"s-{n // 5}"}, "trace_row": True,
        "input": {"status": "value", "value": f"question {n} " + "x" * 300},
        "output": {"status": "value", "value": "a refund" if n % 97 == 0 else "no"},
        "tags": ["odd" if n % 2 else "even"], "log": {"events": []}, "missing": ["observations"],
        "locators": [{"file": "e.jsonl", "row": n}],
    }

root, count = sys.argv[1], int(sys.argv[2])
imports = Imports(root)
project, writer = imports.project, stored.RecordWriter()
with project.transaction(call_of("import_evidence")) as tx, project.staging("evidence") as staging:
    batch_id = tx.new_id("batch")
    made = staging.write(stored.RECORDS, writer.lines(record(n) for n in range(1, count + 1)))
    staging.write(stored.INDEX, [writer.index])
    tx.place(staging, f"evidence/{batch_id}")
    tx.put(ImportedBatch(
        id=batch_id, source_kind="langfuse", adapter_profile="by_file", source_namespace="ns", files=(),
        fingerprint="0" * 64, completeness="unknown", counts={"records": count}, fields={"trace.tags": {"kept": count}},
        records_sha256=made.sha256, records_bytes=made.size, created_at=AT,
    ))
    tx.commit(Answered())

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before = peak()
text = imports.call("find_records", batch_id=batch_id, text="REFUND", text_in=["output"], count_by="session", sample=10)
kept = imports.call("find_records", batch_id=batch_id, tags=["odd"], store_selection=True)
searched = peak()
dataset = imports.call("store_dataset", selection_id=kept.selection_id, split={"protection": 0.3})
print(json.dumps({
    "searching": searched - before, "storing": peak() - before, "matched": text.matched, "sessions": text.count_values,
    "kept": kept.record_count, "cases": dataset.case_count, "usage": dataset.usage_counts,
    "groups": dataset.group_counts, "answer": len(kept.model_dump_json()),
}))
"""


@pytest.mark.slow
def test_memory_grows_with_ids_and_not_with_records(tmp_path):
    told = {}
    for count in (10_000, 100_000):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / str(count)), str(count)],
            capture_output=True,
            text=True,
            check=True,
            timeout=900,
        )
        told[count] = json.loads(done.stdout)

    large = told[100_000]
    assert (large["matched"], large["kept"], large["cases"]) == (100_000 // 97, 50_000, 50_000)
    assert large["usage"]["protection"] == pytest.approx(15_000, abs=5)
    assert large["groups"]["both_by_source"] == 0
    assert large["answer"] < 8_000
    # 100,000 Records are 60 MB of JSON.
    assert large["searching"] < 20, told
    assert large["storing"] < 100, told
