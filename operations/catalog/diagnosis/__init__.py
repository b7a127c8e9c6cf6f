"""Diagnosis: what fails, and why."""
