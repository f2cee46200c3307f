"""Measurements of parts of the system; they return figures, the command line prints them."""
