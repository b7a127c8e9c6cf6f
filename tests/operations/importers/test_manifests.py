"""A manifest's key and a file's name mean one file where either has more folders before the other."""

from hypothesis import given
from hypothesis import strategies as st

from operations.importers._folders import LONGEST, _Listed

paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map("/".join)
keys = st.lists(st.one_of(paths, paths.map("/".__add__)), max_size=5).map(lambda found: dict.fromkeys(found, 1))


@given(paths, keys)
def test_a_file_is_found_under_every_key_that_means_it_and_under_no_other(name, rows):
    meant = [key for key in rows if name == key or key.endswith(f"/{name}") or name.endswith(f"/{key}")]
    assert sorted(_Listed(rows).keys(name)) == sorted(meant)


def test_a_key_that_is_longer_than_any_path_is_of_no_file():
    assert _Listed({"a/" * LONGEST + "b": 1}).keys("b") == []
