"""Reports of growing Rounds: time against reading the same Records, bytes, and whether time grows linearly.

    python -m benchmarks.reports                 300, 1,000 and 3,000 Records
    python -m benchmarks.reports --browser DIR   and opens the largest in Chromium (DIR: see tests/operations/reports)

The floor is the least that any report has to do: read both batches and both Assessments from the disk, checked against
their digests, and parse them. The goal: 3,000 Records in at most 10 s and 5 MB, and an exponent near 1.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gate_model import standard_mix, table
from benchmarks.gate_through_tools import Bed
from operations.importers._assessment_csv import read_assessment_csv
from operations.reports.gathering import round_report
from operations.reports.pages import round_pages
from storage import contents
from storage.schema.assessments import Assessment
from tests.operations.catalog.stages import Staged

REPEATS = 5
SIZES = (300, 1_000, 3_000)
"""Records of both sides together."""
LOOK = Path(__file__).parent.parent / "tests" / "support" / "browser" / "look.mjs"


def compared(top: Path, records: int) -> Staged:
    """Returns a Round whose newest comparison rests on so many Records."""
    rng = random.Random(records)
    mix = standard_mix(records // (2 * REPEATS))
    bed = Bed(top, mix, REPEATS, ["correct"])
    target = bed.copy(table(mix.rates, REPEATS, rng), table(mix.changed("fix"), REPEATS, rng))
    target.compare()
    return target


def floor(target: Staged) -> float:
    """Reads and parses what a report rests on. Returns processor seconds."""
    project, began = target.project, time.process_time()
    state = project.state()
    for side in ("left", "right"):
        assessment = state.get(Assessment, target.ids[f"{side}_assessment_id"])
        contents.records(project, state, assessment.batch_id)
        read_assessment_csv(contents.checked(project, state, f"assessments/{assessment.id}/assessment.csv"))
    return time.process_time() - began


def built(target: Staged, to: Path) -> tuple[float, int, int]:
    """Writes a report into a folder. Returns processor seconds, files and bytes."""
    began = time.process_time()
    pages = [
        (name, text.encode()) for name, text in round_pages(round_report(target.project, target.state, target.round))
    ]
    seconds = time.process_time() - began
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for name, data in pages:
        (to / name).write_bytes(data)
    return seconds, len(pages), sum(len(data) for _, data in pages)


def opened(prefix: str, path: Path) -> dict[str, Any]:
    """Opens a page in Chromium at three widths, light and dark. Returns what was seen."""
    node = Path(prefix) / "node_modules" / ".bin" / "node"
    chromium = shutil.which("chromium") or "chromium"
    command = [str(node), str(LOOK), prefix, chromium, str(path), str(path.parent), "360", "768", "1280"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def main() -> None:
    """Prints a line for each size, and the fitted exponent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", metavar="DIR", help="where npm installed node@22, puppeteer-core and axe-core")
    given = parser.parse_args()
    points = []
    with tempfile.TemporaryDirectory() as top:
        for records in SIZES:
            target = compared(Path(top) / str(records), records)
            least = min(floor(target) for _ in range(3))
            to = Path(top) / "report"
            seconds, files, size = min(built(target, to) for _ in range(3))
            points.append((math.log(records), math.log(seconds)))
            print(
                f"{records:>6} Records: {seconds:.2f} s of processor, {seconds / least:.1f} times reading them; "
                f"{files} files, {size / 1e6:.2f} MB",
                flush=True,
            )
        if given.browser:
            for name in ("report.html", "cases-1.html"):
                found = opened(given.browser, to / name)
                wrong = [*found["errors"], *found["violations"]]
                print(f"{name} in Chromium: loaded in {found['seconds']} s, wrong: {wrong or 'nothing'}")
    (x0, y0), (x1, y1) = points[0], points[-1]
    print(f"exponent from {SIZES[0]} to {SIZES[-1]} Records: {(y1 - y0) / (x1 - x0):.2f}")


if __name__ == "__main__":
    main()
