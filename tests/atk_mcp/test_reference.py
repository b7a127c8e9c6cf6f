"""The generated pages."""

import re

from atk_mcp import reference, snapshot
from operations.registry import all_operations
from tests.atk_mcp.toys import OPERATIONS, CasesMissing


def test_a_page_shows_request_response_refusals_and_an_example():
    page = reference.page(OPERATIONS["store_dataset"])
    assert "# `store_dataset`" in page
    assert "Effect: stores under `.atk/`; touches none of your files." in page
    assert "| `cases` | list of object | **required.** The Cases. |" in page
    assert "| `parts[].title` | string | The part's heading. (1 to 80 characters) |" in page
    assert "- [`cases_missing`](../errors.md#cases_missing): There are no Cases." in page
    assert "## Example: One\n\n```json\n{}\n```" in page


def test_the_index_lists_every_operation_once_under_its_set():
    page = reference.index_page(all_operations())
    listed = re.findall(r"^- \[`(\w+)`\]\((\w+)\.md\): \S", page, re.MULTILINE)
    assert sorted(listed) == [(name, name) for name in sorted(all_operations())]
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [name.capitalize() for name in snapshot.load_toolsets()]


def test_the_errors_page_shows_each_error_with_what_leads_on():
    page = reference.errors_page([CasesMissing])
    assert "## `cases_missing`\n\nThere are no Cases.\n\n> There are no Cases in {dataset_id}" in page
    assert "Next: `get_status`; `store_dataset` with `name` = {dataset_id} (you supply `cases`: the tasks)." in page


def test_a_page_that_differs_or_is_left_over_is_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "pages", lambda: {"operations/a.md": "a\n", "errors.md": "e\n"})
    (tmp_path / "operations").mkdir()
    (tmp_path / "errors.md").write_text("e\n", encoding="utf-8")
    (tmp_path / "operations" / "gone.md").write_text("old", encoding="utf-8")
    assert reference.stale(str(tmp_path)) == ["operations/a.md", "operations/gone.md"]
    monkeypatch.setattr(reference, "DOCS", str(tmp_path))
    assert reference.main(["check"]) == 1
    assert reference.main(["write"]) == 0
    assert reference.stale(str(tmp_path)) == []
