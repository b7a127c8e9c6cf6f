"""Evidence: batches of runs."""
