"""Statistics for few Cases and few repeats, as pure functions over the standard library."""
