"""The partition change: its transition table, what carries it out, and the service that starts and follows it."""
