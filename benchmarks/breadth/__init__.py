"""What a person gets who sets nothing, on many public tables: python -m benchmarks.breadth."""
