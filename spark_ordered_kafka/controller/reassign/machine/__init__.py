"""The reassignment of partitions as a state machine. PURE."""
