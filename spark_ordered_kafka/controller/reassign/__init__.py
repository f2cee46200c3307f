"""Moving replicas between brokers and between log directories (KIP-179, KIP-455, KIP-113)."""
