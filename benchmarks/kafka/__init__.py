"""How fast the Kafka service is; see :mod:`benchmarks.kafka.__main__`."""
