"""Which brokers replicas go to. PURE."""
