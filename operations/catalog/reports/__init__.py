"""Pages for people, made from the records."""
