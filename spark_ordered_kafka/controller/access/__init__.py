"""Who may do what: rights from Kafka's ACLs or a role file, and proofs of who sends a request."""
