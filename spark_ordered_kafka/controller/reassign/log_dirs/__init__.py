"""Log directories of brokers and the replicas in them (KIP-113, KIP-179)."""
