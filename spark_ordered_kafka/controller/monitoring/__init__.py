"""Metrics, the audit log, logs and probes."""
