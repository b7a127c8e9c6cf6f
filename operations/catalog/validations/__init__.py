"""Validations: two Revisions compared on frozen Cases."""
