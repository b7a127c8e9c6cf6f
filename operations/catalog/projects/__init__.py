"""Projects: the folders ATK works in, and what is going on there."""
