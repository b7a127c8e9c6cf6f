"""Running the target's own process: what to start, how to end it, and what it left."""
