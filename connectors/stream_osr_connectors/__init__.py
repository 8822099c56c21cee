"""Connectors of stream-osr: files, Kafka, commands, pages and the command line."""
