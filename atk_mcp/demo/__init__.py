"""`atk demo`: a whole Round on a small agent, told as it happens."""
