"""Assessments: verdicts about evidence."""
