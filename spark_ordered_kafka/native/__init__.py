"""What needs librdkafka's own C functions; each has an equal beside it that uses confluent-kafka only."""
