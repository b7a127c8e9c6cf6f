"""Ends what dead runs and imports left behind, before somebody seals and forgets those runs."""

from __future__ import annotations

from operations.execution.importing import sweep_imports
from operations.execution.processes import sweep_batch
from storage import probes
from storage.owners import is_alive
from storage.project import Project


def sweep_dead(project: Project) -> None:
    """Ends the agents of dead runs and probes, and takes away what killed imports left. Usually there is nothing."""
    state = project.state()
    for run in state.runs.values():
        if not is_alive(project.store, run.owner):
            sweep_batch(project.store.full(f"work/{run.batch_id}"))
    for probe in probes.open_probes(state):
        if not is_alive(project.store, probe.owner):
            sweep_batch(project.store.full(probes.work_folder(probe)))
    sweep_imports(project)
