"""Around the service: processes, metrics, health, topics, the command."""
