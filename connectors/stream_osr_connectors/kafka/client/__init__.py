"""The Kafka client: an interface for the service, and its implementation with kafka-python.

Only this package depends on kafka-python. :mod:`.interface` defines the types that it returns.
"""
