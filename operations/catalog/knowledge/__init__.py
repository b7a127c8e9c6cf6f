"""Lessons that were learned, and where they hold."""
