"""`atk install`: puts the server and the Skills where a client finds them, and takes them away again."""
