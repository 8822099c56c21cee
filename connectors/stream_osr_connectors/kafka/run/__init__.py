"""The service: partitions, transactions and recovery."""
