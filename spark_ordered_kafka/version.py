"""The version of this package, which the build takes from here."""

__version__ = "0.1.0"
