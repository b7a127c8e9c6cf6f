"""Adapters: what turns one attempt at a Case into a process that the guardian starts, watches and ends."""
