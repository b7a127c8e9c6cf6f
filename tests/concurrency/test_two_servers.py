"""Two clients, each with its own real server, on one project: the result is that of some serial order."""

import os
import random
import sys
import threading
from contextlib import ExitStack

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters

from tests.concurrency.mixed import READS, ServerKilled, World, assert_serial, run
from tests.faults.story import Wire

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def servers(world):
    """How to ask each of two servers, each through an official client of its own."""
    environment = {**os.environ, "PYTHONPATH": ROOT, "ATK_STRICT_RESULTS": "1"}
    asks = []
    with start_blocking_portal() as portal, ExitStack() as stack:
        for _ in range(2):
            parameters = StdioServerParameters(
                command=sys.executable, args=["-m", "atk_mcp"], cwd=world.target.root, env=environment
            )
            client = stack.enter_context(portal.wrap_async_context_manager(Client(parameters)))

            def ask(name, arguments, client=client):
                result = portal.call(client.call_tool, name, arguments)
                return not result.is_error, result.structured_content

            asks.append(ask)
        yield asks


def test_two_clients_at_once_leave_a_serial_history(world, servers):
    run(world, servers, seed=3, steps=12)
    assert_serial(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_two_hundred_mixed_calls_of_two_clients_leave_a_serial_history(world, servers, seed):
    run(world, servers, seed=seed, steps=75)
    assert_serial(world)
    writes = {name: n for name, n in world.asked.items() if name not in READS}
    assert sum(world.asked.values()) >= 200
    assert sum(writes.values()) >= 100
    assert len({name for name, _ in world.acknowledged}) >= 8, world.acknowledged


def test_the_same_request_of_two_clients_makes_one_object_and_both_are_told_of_it(world, servers):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        for n in range(6):
            arguments = {"source": "cases.csv", "request_id": f"same-{n}"}
            told = list(pool.map(lambda ask, given=arguments: ask("store_dataset", given), servers))
            assert [fine for fine, _ in told] == [True, True]
            assert len({answer["dataset_id"] for _, answer in told}) == 1
    made = world.target.state.objects["dataset"]
    assert len(made) == 1 + 6
    assert sorted(os.listdir(world.target.path(".atk/datasets"))) == sorted(made)


def test_what_one_server_acknowledged_the_other_sees_at_its_next_call(servers):
    for n in range(10):
        one, other = servers[n % 2], servers[1 - n % 2]
        _, made = one("store_dataset", {"source": "cases.csv"})
        fine, read = other("read_record", {"record_id": made["dataset_id"]})
        assert fine
        assert read["value"]["case_count"] == 6
        _, status = other("get_status", {})
        assert status["position"] == made["journal_record"]


class Doomed:
    """A server that is killed in the middle of its call number `last`."""

    def __init__(self, world, last, after_seconds):
        self.wire = Wire(world.target.root)
        self.left = last
        self.after_seconds = after_seconds

    def __call__(self, name, arguments):
        self.left -= 1
        if self.left == 0:
            threading.Timer(self.after_seconds, self.wire.process.kill).start()
        try:
            result = self.wire.call(name, **arguments)
        except (AssertionError, BrokenPipeError) as gone:
            raise ServerKilled from gone
        return not result["isError"], result["structuredContent"]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_servers_that_are_killed_at_work_cost_at_most_their_last_answer(world, servers, seed):
    dice = random.Random(seed)
    with ExitStack() as stack:
        doomed = [Doomed(world, dice.randint(4, 20), dice.random() / 20) for _ in range(3)]
        for server in doomed:
            stack.enter_context(server.wire)
        cut_off = run(world, [servers[0], *doomed], seed=seed, steps=15)
    assert cut_off
    servers[1]("inspect_or_recover_operation", {})
    assert_serial(world, unheard=cut_off)
