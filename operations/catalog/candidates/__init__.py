"""Candidates: one scoped change each, and what becomes of it."""
