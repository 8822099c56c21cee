"""The service itself: partitions as values, transactions, and how they come back."""
