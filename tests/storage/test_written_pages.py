"""A report that several make at once is whole whenever it is looked at, and none of them fails."""

from __future__ import annotations

import threading

from storage.files import Folder
from storage.views import write_pages

TEXTS = [bytes([letter]) * (1 << 18) for letter in b"abc"]


def test_those_that_make_the_same_report_at_once_take_turns(tmp_path):
    start, trouble, seen = threading.Barrier(len(TEXTS)), [], set()

    def make(text):
        with Folder(str(tmp_path)) as store:
            start.wait()
            for _ in range(20):
                try:
                    write_pages(store, "round-1-test", [("report.html", text)])
                    seen.add(store.read("reports/round-1-test/report.html"))
                except OSError as error:
                    trouble.append(error)

    threads = [threading.Thread(target=make, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    assert seen <= set(TEXTS)
    with Folder(str(tmp_path)) as store:
        assert store.names("reports/round-1-test") == ["report.html"]
