"""`atk init`: makes a folder a project by questions, and starts its agent once."""
