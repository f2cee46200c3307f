"""Automatic partition counts: observes the load of topics and proposes or requests changes."""
