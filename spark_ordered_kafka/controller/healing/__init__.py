"""Self-healing: finds brokers that stay away, failed log directories and uneven loads, and proposes or requests what helps."""
