"""Trajectories as a library: the log of what an agent did, without a project, a server or a model.

Importing this loads the standard library only.
"""

from operations.trajectories.log import EventLog, LogProblem, content
from operations.trajectories.writing import LogWriter

__all__ = ["EventLog", "LogProblem", "LogWriter", "content"]
