"""What happens to a result that is too long."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atk_mcp import fitting
from atk_mcp.fitting import fit

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=60)
VALUES = st.recursive(
    LEAVES, lambda x: st.lists(x, max_size=8) | st.dictionaries(st.text(max_size=8), x, max_size=4), max_leaves=20
)
OBJECTS = st.dictionaries(st.text(max_size=12), VALUES, max_size=6)


def size(value) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


@given(OBJECTS.filter(lambda x: "truncated" not in x), st.integers(min_value=80, max_value=900))
def test_whatever_comes_in_what_goes_out_fits(value, limit):
    value = json.loads(json.dumps(value).encode("utf-8", "replace"))
    fitted = fit(value, limit, keep=("message",))
    assert size(fitted) <= limit
    assert fitted == value or fitted["truncated"]


def test_a_value_that_fits_is_returned_untouched():
    value = {"message": "All is well.", "cases": [1, 2, 3]}
    assert fit(value, 8_000) is value


def test_the_longest_list_loses_its_last_items_and_says_how_many():
    value = {
        "message": "Three hundred cases.",
        "cases": list(range(1000, 1300)),
        "few": [1, 2],
        "next": [{"tool": "x"}],
    }
    fitted = fit(value, 400, keep=("message", "next"))
    left = len(fitted["cases"])
    assert fitted["cases"] == value["cases"][:left]
    assert fitted["truncated"] == {"cases": f"{300 - left} items left out"}
    assert (fitted["message"], fitted["few"], fitted["next"]) == (value["message"], [1, 2], value["next"])
    assert list(fitted)[-2:] == ["truncated", "next"]
    assert 300 < size(fitted) <= 400


def test_a_long_text_inside_the_only_item_is_cut_at_its_end():
    value = {"message": "One record.", "records": [{"id": "batch-1.1", "text": "é" * 4000}]}
    fitted = fit(value, 1000, keep=("message",))
    text = fitted["records"][0]["text"]
    assert text.endswith("é…")
    assert fitted["records"][0]["id"] == "batch-1.1"
    assert fitted["truncated"] == {"records[0].text": f"{4000 - len(text) + 1} characters left out"}
    assert size(fitted) > 800


def test_an_object_of_too_many_short_fields_goes_whole_and_is_named():
    value = {"message": "Many.", "digests": {f"file-{i}": "0" * 20 for i in range(400)}}
    fitted = fit(value, 500, keep=("message",))
    assert fitted["message"] == "Many."
    assert "digests" not in fitted
    assert fitted["truncated"]["digests"].startswith("all ")


def test_the_value_that_was_given_is_not_changed():
    value = {"cases": ["x" * 50] * 50}
    fit(value, 300)
    assert value == {"cases": ["x" * 50] * 50}


@pytest.mark.parametrize("part", ["x" * 300, ["x" * 30] * 10], ids=["texts", "lists"])
def test_what_is_measured_grows_with_the_value_and_not_with_its_square(monkeypatch, part):
    real = fitting._size

    def measured(parts):
        sizes = []
        monkeypatch.setattr(fitting, "_size", lambda value: sizes.append(real(value)) or sizes[-1])
        value = {"message": "m", "value": {f"k{n}": part for n in range(parts)}}
        assert real(fit(value, 2_000)) <= 2_000
        return sum(sizes)

    assert measured(400) < 5 * measured(100)
