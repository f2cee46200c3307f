"""Carrying out reassignments while this process is the controller."""
