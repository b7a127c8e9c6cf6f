"""Judges that the server runs: rules over what was expected and what the agent said, one to a module."""
