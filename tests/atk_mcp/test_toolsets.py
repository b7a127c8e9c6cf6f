"""Sets of tools: which there are, which are offered, and what is said of those that are not."""

import pytest

from atk_mcp import snapshot, toolsets
from atk_mcp.withholding import ArgumentWithheld, refuse_withheld

LISTED = [
    {"name": name, "annotations": {"readOnlyHint": name.startswith("read")}}
    for name in ("read_a", "read_b", "score", "write_a", "write_b")
]
SETS = {"core": ["read_a"], "rounds": ["read_b", "write_a", "write_b"], "trajectories": ["score"]}


def names(**how):
    return [tool["name"] for tool in toolsets.offer(LISTED, SETS, **how).tools]


def test_what_has_to_be_named_is_left_out_unless_it_is():
    assert names() == ["read_a", "read_b", "write_a", "write_b"]
    assert names(toolsets="trajectories") == ["read_a", "score"]
    assert names(toolsets="all") == names(toolsets="trajectories,rounds") == [tool["name"] for tool in LISTED]


def test_the_core_is_always_there_and_the_order_is_that_of_the_list():
    assert names(toolsets="") == ["read_a"]
    assert names(toolsets=" Rounds ,core,,") == ["read_a", "read_b", "write_a", "write_b"]


def test_read_only_wins_over_every_set():
    assert names(toolsets="all", read_only=True) == ["read_a", "read_b"]


def test_an_unknown_set_is_refused_with_those_there_are():
    with pytest.raises(toolsets.UnknownToolset, match=r"no toolset 'round'; there are core, rounds, trajectories, and"):
        names(toolsets="core,round")


def test_a_choice_is_told_and_so_is_why_a_tool_is_missing():
    assert toolsets.offer(LISTED, SETS).words == ""
    assert toolsets.offer(LISTED, SETS, toolsets="all").words == ""
    some = toolsets.offer(LISTED, SETS, toolsets="rounds", read_only=True)
    assert some.words == " Offered here: toolsets core, rounds. Offered here: only tools that change nothing."
    assert "in the toolset trajectories" in some.why_not("score")
    assert "--read-only" in some.why_not("write_a")
    assert toolsets.offer(LISTED, SETS).why_not("nothing") == ""


def test_every_tool_is_in_one_set_and_every_set_is_described():
    sets = snapshot.load_toolsets()
    assert sorted(name for tools in sets.values() for name in tools) == [tool["name"] for tool in snapshot.load()]
    assert set(sets) <= set(toolsets.ABOUT)
    assert list(sets) == sorted(sets)
    assert {"get_status", "read_record"} <= set(sets[toolsets.CORE])


def test_a_reading_server_searches_and_withholds_only_what_would_keep_the_search():
    offered = snapshot.offer(read_only=True)
    (search,) = [tool for tool in offered.tools if tool["name"] == "find_records"]
    assert search["annotations"]["readOnlyHint"]
    asked = search["inputSchema"]["properties"]
    assert "count_by" in asked
    assert not {"store_selection", "request_id"} & asked.keys()
    refuse_withheld(offered, "find_records", {"batch_id": "batch-1-none", "store_selection": False})
    with pytest.raises(ArgumentWithheld, match="started with --read-only") as refused:
        refuse_withheld(offered, "find_records", {"store_selection": True})
    assert refused.value.next[0].tool == "find_records"
    usual = snapshot.offer()
    (search,) = [tool for tool in usual.tools if tool["name"] == "find_records"]
    assert "store_selection" in search["inputSchema"]["properties"]
    refuse_withheld(usual, "find_records", {"store_selection": True})
