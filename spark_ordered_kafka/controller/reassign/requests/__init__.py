"""Requests to reassign partitions: checked, planned, stored and shown."""
