"""Hostile input to everything that reads what others have written: a value or the documented error, and nothing else.

Every test here is a property without fixtures, so that `make fuzz` can run it for as long as one likes (:mod:`tests.fuzz.run`).
"""
