"""An error words its facts for who reads it, in its message and in what it leads on to."""

from dataclasses import dataclass

import pytest

from storage.errors import AtkError, NextCall


@dataclass(kw_only=True, eq=False)
class FilesMissing(AtkError):
    """A toy with a list among its facts."""

    message = "{files} are missing in {folder}."
    next_calls = (NextCall("read_record", {"record_id": "{folder}", "ids": "{files}"}, {"rows": "with {files}"}),)

    folder: str
    files: list[str]


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (["a", "b"], "a, b"),
        ([], "none"),
        ([str(n) for n in range(10)], "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"),
    ],
)
def test_a_list_is_shown_as_words_and_given_as_it_is(files, shown):
    error = FilesMissing(folder="f", files=files)
    assert str(error) == f"{shown} are missing in f."
    (step,) = error.next
    assert step.supply == {"rows": f"with {shown}"}
    assert step.arguments == {"record_id": "f", "ids": files}
