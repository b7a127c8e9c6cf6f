"""The journal: what was done, and what a crash left open."""
