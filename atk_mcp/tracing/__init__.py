"""`atk trace`: records the wire between a client and its server, and shows what went over it."""
