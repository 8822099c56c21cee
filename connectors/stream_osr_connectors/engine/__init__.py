"""The engine: what happens to a record between an input and its outputs, the same for files, HTTP, Kafka and Spark.

A door (files, HTTP, Kafka, Spark) says where records come from and where results go. Everything else belongs in here.
"""

from .stream import RecordStream, Refusal, check_record

__all__ = ["RecordStream", "Refusal", "check_record"]
