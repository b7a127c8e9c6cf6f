"""Ends what dead runs and imports left behind, before somebody seals and forgets those runs.

All of it goes on without the project's lock: agents may leave any number of files, and nobody is to wait for that.
"""

from __future__ import annotations

from contextlib import suppress

from operations.execution.importing import sweep_imports
from operations.execution.processes import sweep_batch
from storage import probes
from storage.errors import AtkError
from storage.owners import is_alive
from storage.project import Project


def sweep_dead(project: Project) -> None:
    """Ends the agents of dead runs and probes, and takes away what they and killed imports left. Usually it is nothing.

    A run whose process is gone is sealed from what it confirmed; of the folders of its attempts nothing is needed.
    """
    state = project.state()
    for run in state.runs.values():
        if not is_alive(project.store, run.owner):
            sweep_batch(project.store.full(f"work/{run.batch_id}"))
            clear_attempts(project, run.batch_id)
    for probe in probes.open_probes(state):
        if not is_alive(project.store, probe.owner):
            sweep_batch(project.store.full(probes.work_folder(probe)))
    sweep_imports(project)


def clear_attempts(project: Project, batch_id: str) -> None:
    """Removes the folders of attempts of a run that has ended, before the batch is sealed under the lock."""
    with suppress(OSError, AtkError):  # what is left goes with the run's folder
        for name in project.store.names(f"work/{batch_id}"):
            if name.partition(".")[0].isdigit():  # an attempt's folder, or one that was set aside for it
                project.store.remove_tree(f"work/{batch_id}/{name}")
