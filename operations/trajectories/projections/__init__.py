"""What a log is turned into: rows to train on, messages, spans, a view for judges, records for an audit.

Each projection is a pure function of one log. It returns its result and a report of what it could not carry.
"""

from operations.trajectories.projections.audit import audit_records
from operations.trajectories.projections.evaluator import evaluator_view
from operations.trajectories.projections.losses import Loss, LossReport, merged
from operations.trajectories.projections.openai import from_openai_messages, openai_messages
from operations.trajectories.projections.otlp import otlp_spans
from operations.trajectories.projections.sft import sft_messages, sft_tokens

__all__ = [
    "Loss",
    "LossReport",
    "audit_records",
    "evaluator_view",
    "from_openai_messages",
    "merged",
    "openai_messages",
    "otlp_spans",
    "sft_messages",
    "sft_tokens",
]
