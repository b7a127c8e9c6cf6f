"""Datasets: immutable sets of Cases."""
