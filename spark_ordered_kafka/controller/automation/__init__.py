"""What automatic partition counts and self-healing share: quiet hours, requests of their own, a thread at the leader."""
