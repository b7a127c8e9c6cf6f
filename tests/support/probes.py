"""A Round whose permission is for one script, and what is asked under it."""

from __future__ import annotations

import os

from storage.schema.probes import Probe

LOOK = "import json, sys\nprint('saw', json.load(open(sys.argv[1])))\n"
ASK = {"probe_authorization_id": "look", "question": "What does the agent get?"}


def permission(**more):
    usual = {"id": "look", "script_path": ".atk/probes/look.py", "isolation_ref": "it reads files only", "max_calls": 5}
    return {**usual, **more}


class Probed:
    """A target with a Round whose permission is for `script`."""

    def __init__(self, target, script=LOOK, **more):
        self.target = target
        target.write(".atk/probes/look.py", script)
        made = target.call("create_round", probe_permissions=[permission(**more)])
        self.round_id = made.round_id

    def ask(self, **more):
        return self.target.call("diagnostic_probe", **{**ASK, "round_id": self.round_id, **more})

    def whole(self, answer):
        """Returns the Executions as they are stored."""
        return self.target.call("read_record", record_id=answer.probe_id, field="records").value

    @property
    def probes(self):
        return self.target.state.all(Probe)


def clean(target):
    """Whether nothing of a probe is left beside its evidence."""
    return os.listdir(target.path(".atk/work")) == [] and os.listdir(target.path(".atk/owners")) == []
