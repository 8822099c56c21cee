"""Measurements that anyone can repeat: ``python -m benchmarks.NAME``."""
