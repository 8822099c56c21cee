"""The Kafka client: everything that knows which one it is. :mod:`.seam` says what the service needs of it."""
