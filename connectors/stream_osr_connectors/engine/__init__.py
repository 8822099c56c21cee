"""The engine: what happens to a record between an input and its outputs, the same for files, HTTP, Kafka and Spark.

A door (files, HTTP, Kafka, Spark) says where records come from and where results go. Everything else belongs in here.
"""

from .model_change import check_carries
from .stream import DecidedRecord, RecordStream, Refusal, check_contributions, check_record

__all__ = ["DecidedRecord", "RecordStream", "Refusal", "check_carries", "check_contributions", "check_record"]
