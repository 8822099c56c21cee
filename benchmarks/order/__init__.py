"""Whether known classes hold when neighbouring instances resemble each other: ``python -m benchmarks.order``."""
