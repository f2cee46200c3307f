"""Faults that are planted in copies of the package, each of which the tests must find: ``python -m tests.planted``."""
