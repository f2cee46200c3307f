"""Throttles of replication traffic."""
