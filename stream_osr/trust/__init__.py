"""Trust: expected recall of the known classes, the reference check, and confidence of decisions."""
