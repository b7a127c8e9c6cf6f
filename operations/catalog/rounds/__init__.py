"""Rounds: bounded efforts to improve an agent."""
