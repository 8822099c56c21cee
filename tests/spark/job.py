"""A Spark job on two cores: ``job.py run FOLDER [MAX_WAIT]`` decides, ``job.py read FOLDER`` prints the output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from stream_osr_connectors.spark import decide
from tests.spark.streams import ARGUMENTS

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "key string, `order` bigint, time double, a double, b string, colour int"
FILES_PER_BATCH = 1


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def run(folder: Path, max_wait: float | None) -> None:
    """Decide the files of ``FOLDER/in``. Without ``max_wait`` the job ends after the last one."""
    source = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH).json(f"{folder}/in")
    arguments = {**ARGUMENTS, "max_wait": max_wait}
    out = decide(source, folder / "model.osr", key="key", order="order", time="time", **arguments).writeStream
    out = out.trigger(availableNow=True) if max_wait is None else out.trigger(processingTime="500 milliseconds")
    out = out.option("checkpointLocation", f"{folder}/checkpoint").option("path", f"{folder}/out")
    out.format("parquet").start().awaitTermination()


def read(folder: Path) -> None:
    for row in session().read.parquet(f"{folder}/out").collect():
        sys.stdout.write(json.dumps(row.asDict()) + "\n")


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    if command == "read":
        read(Path(folder))
    else:
        run(Path(folder), float(rest[0]) if rest else None)
