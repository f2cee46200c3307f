"""Middleware: what every request passes before its route."""
