"""The reader of pages fails where a page is wrong."""

import pytest

from tests.support.fences import Reader, blocks_of, commands_of


def walk(home, text, *, exact=True):
    reader = Reader(home, exact=exact)
    reader.read(blocks_of(text))
    return reader


def test_a_block_knows_its_language_its_option_and_its_line():
    (block,) = blocks_of("Text\n\n```sh status=2 not-run: needs a key\nls\n```\n")
    assert (block.language, block.option("status"), block.why_not, block.text, block.line) == (
        "sh",
        "2",
        "needs a key",
        "ls\n",
        3,
    )


def test_a_block_in_a_list_loses_its_indent():
    (block,) = blocks_of("1. Do\n\n   ```sh\n   ls\n     -l\n   ```\n")
    assert block.text == "ls\n  -l\n"


def test_a_command_may_go_on_over_lines():
    text = "ls '\n' # it's one\ncat <<'END'\nit's\nEND\na \\\n  b\n"
    assert list(commands_of(text)) == ["ls '\n' # it's one\n", "cat <<'END'\nit's\nEND\n", "a \\\n  b\n"]


def test_a_command_that_does_not_end_is_no_command():
    with pytest.raises(AssertionError, match="does not end"):
        list(commands_of("ls '\n"))


def test_files_are_written_where_the_reader_is_and_folders_are_kept(tmp_path):
    text = "```sh\nmkdir a && cd a\n```\n```text file=b/c.txt\nhello\n```\n```sh\ncat b/c.txt; pwd\n```\n"
    reader = walk(tmp_path, text + "```text output\nhello\n/home/you/a\n```\n")
    assert reader.here == tmp_path / "a"


@pytest.mark.parametrize(
    "shown",
    ["0…\n", "2\n1\n", "1\n3\n", "…\n4\n", "1\n2\n3\n4\n", "1\n2\n3\n3\n", " 1\n"],
    ids=["other", "order", "gap", "missing", "more", "twice", "indent"],
)
def test_output_that_is_not_what_was_printed_fails(tmp_path, shown):
    with pytest.raises(AssertionError, match="but this was printed"):
        walk(tmp_path, f"```sh\nprintf '1\\n2\\n3\\n'\n```\n```text output\n{shown}```\n")


@pytest.mark.parametrize("shown", ["1\n2\n3\n", "1…\n…\n3…\n", "1\n…\n3\n", "…\n2\n…\n", "2\n3\n"])
def test_output_may_leave_out_what_it_marks(tmp_path, shown):
    walk(tmp_path, f"```sh\nprintf '1\\n2\\n3\\n'\n```\n```text output\n{shown}```\n")


def test_ids_and_digests_may_end_otherwise_and_ids_are_those_that_were_printed(tmp_path):
    text = (
        "```sh\nprintf 'batch-3-%s at 9cba4f31b3e8\\n' k2k2\n```\n```text output\nbatch-3-abcd at 0123456789ab\n```\n"
    )
    reader = walk(tmp_path, text + "```sh\necho for batch-3-abcd\n```\n")
    assert reader.printed == "for batch-3-k2k2\n"
    with pytest.raises(AssertionError, match="batch-4-abcd is on the page"):
        walk(tmp_path, text + "```sh\necho batch-4-abcd\n```\n")
    assert walk(tmp_path, text + "```sh\necho to batch-4-abcd\n```\n", exact=False).printed == "to batch-3-k2k2\n"
    with pytest.raises(AssertionError, match="but this was printed"):
        walk(tmp_path, text.replace("batch-3-abcd", "batch-4-abcd"))


@pytest.mark.parametrize(
    ("status", "command"), [("0", "false"), ("1", "true"), ("1", "false; true"), ("1", "false\ntrue")]
)
def test_a_command_that_ends_with_another_status_fails(tmp_path, status, command):
    with pytest.raises(AssertionError, match="ended with"):
        walk(tmp_path, f"```sh status={status}\n{command}\n```\n")


def test_what_is_not_to_run_does_not_run(tmp_path):
    walk(tmp_path, "```sh not-run: as it would fail\nfalse\n```\n")


def test_atk_is_run_with_its_refusals(tmp_path):
    assert "invalid choice" in walk(tmp_path, "```sh status=2\natk no-such-command\n```\n").printed
