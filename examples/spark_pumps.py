"""Three pumps in a Spark stream: train a model, write rows as JSON Lines, decide them by pump, print a table.

Run it in an empty folder. It needs the extra ``spark`` and Java 17. A second run finds no new row and prints the same
table, because the query continues from its checkpoint.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from pyspark.sql import SparkSession

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.spark import decide

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CENTRES = {"idle": (2.0, 30.0), "running": (20.0, 60.0), "overheated": (20.0, 95.0)}
SCHEMA = "pump string, n bigint, flow double, heat string"


def reading(state: str, rng: random.Random) -> dict[str, float]:
    """Draw one reading of a state."""
    flow, heat = CENTRES[state]
    return {"flow": rng.gauss(flow, 1.0), "heat": rng.gauss(heat, 2.0)}


def write() -> None:
    """Write the model and the input. The pumps p2 and p3 overheat, which training has not seen."""
    rng = random.Random(7)
    model = OpenSetRecognizer()
    for n in range(200):
        state = ("idle", "running")[n % 2]
        model.learn_one(reading(state, rng), state)
    model.freeze()
    model.save("pumps.osr")
    Path("in").mkdir()
    for file in range(4):
        rows = []
        for n in range(100 * file, 100 * (file + 1)):
            for number in (1, 2, 3):
                hot = number > 1 and n >= 100 * number
                state = "overheated" if hot and n % 2 else ("idle", "running")[n % 2]
                rows.append({"pump": f"p{number}", "n": n, **reading(state, rng)})
        rng.shuffle(rows)
        if file == 2:
            rows[0] |= {"heat": "high"}  # a sensor that sends text
        Path("in", f"{file}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def main() -> None:
    """Decide all rows that have come since the last run, and show the decisions of all runs."""
    if not Path("pumps.osr").exists():
        write()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json("in")
    out = decide(stream, "pumps.osr", key="pump", order="n", batch_size=50)
    query = out.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet("out")
    for row in found.groupBy("kind").count().orderBy("kind").collect():
        print(f"{row['kind']}: {row['count']}")
    labels = found.where("kind = 'decision'").groupBy("key").pivot("label").count().fillna(0).orderBy("key")
    labels.show()


if __name__ == "__main__":
    main()
