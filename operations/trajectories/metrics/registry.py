"""Every metric by its name, and the one way to take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from operations.trajectories.detectors.schemas import Schema
from operations.trajectories.detectors.toolbox import tools_of
from operations.trajectories.log import EventLog
from operations.trajectories.metrics.calls import CALLS
from operations.trajectories.metrics.effort import EFFORT
from operations.trajectories.metrics.metric import Episode, Measurement, Metric
from operations.trajectories.metrics.sequences import SEQUENCES

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in (*CALLS, *SEQUENCES, *EFFORT)}


class NoSuchMetric(ValueError):
    """A metric was named that there is not."""


def measured(
    log: EventLog,
    *,
    tools: Mapping[str, Schema | None] | None = None,
    reference: Sequence[str] | None = None,
    stated: Mapping[str, float] | None = None,
    names: Iterable[str] = METRICS,
) -> dict[str, Measurement]:
    """Returns the metrics of an episode by name.

    Args:
        log: What the agent did.
        tools: Every tool that the agent had → the JSON Schema of its arguments, or None. Default: what the log says.
        reference: Names of tools in the order of a way that is known to be good.
        stated: Figures that the source states of the whole episode, by its own names.
        names: Which metrics. Default: all.

    Raises:
        NoSuchMetric: A name is none of `METRICS`.
    """
    wanted = list(names)
    if unknown := [name for name in wanted if name not in METRICS]:
        raise NoSuchMetric(f"there is no metric {unknown[0]!r}; there are {', '.join(METRICS)}")
    episode = Episode(log, tools_of(log) if tools is None else tools, reference, stated or {})
    return {name: METRICS[name].measure(episode) for name in wanted}
