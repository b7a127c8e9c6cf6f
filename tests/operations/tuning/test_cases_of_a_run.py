"""Cases that a run cannot have are refused in words that are true of them."""

import pytest

from operations.tuning.running import UnknownCases, require_cases


@pytest.mark.parametrize(
    ("wanted", "given", "said"),
    [
        (["a", "x"], ["x"], "case_ids names x, and the dataset or plan has no such Case."),
        (["x", "y"], ["x", "y"], "case_ids names x, y, and the dataset or plan has no such Cases."),
        (["a", "b", "a"], ["a"], "case_ids names a more than once; repeats says how often each runs."),
        ([*"x0123456789yz"], [*"x0123456789yz"], "case_ids names x, 0, 1, 2, 3, 4, 5, 6, 7, 8 and 3 more"),
        ([], [], "case_ids names no Case, and there would be nothing to run."),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_cases(wanted, given, said):
    with pytest.raises(UnknownCases) as refused:
        require_cases(wanted, {"a", "b"})
    assert refused.value.given == given
    assert str(refused.value).startswith(said)


def test_cases_that_are_there_are_taken():
    require_cases(["b", "a"], {"a", "b"})
