"""What agents did, step by step: looking at it, what went wrong in it, and training rows of it."""
