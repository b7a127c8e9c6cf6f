"""Figures of one episode, each defined once: what it counts, its unit, which way is better, and when it is unknown."""
