"""Frozen records: no I/O, no clock, no randomness."""
