"""What `decide` refuses before a query starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="needs pyspark: make spark", exc_type=ImportError)

from pyspark.sql import DataFrame, SparkSession

from stream_osr.errors import InvalidParameter, PersistenceError
from stream_osr_connectors.spark import decide
from tests.spark.streams import saved_model

pytestmark = [
    pytest.mark.needs("pyspark", "java"),
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A session that stores states in RocksDB."""
    os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(PROVIDER, ROCKSDB)
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_columns_arguments_and_files(session: SparkSession, tmp_path: Path) -> None:
    model, columns = saved_model(tmp_path), "pump string, n bigint, at timestamp, a double, b double, colour int"

    def stream(schema: str) -> DataFrame:
        (folder := tmp_path / "in").mkdir(exist_ok=True)
        return session.readStream.schema(schema).json(str(folder))

    def refused(kind: type[Exception], *parts: str, schema: str = columns, path: Any = model, **changes: Any) -> None:
        with pytest.raises(kind) as caught:
            decide(stream(schema), path, **{"key": "pump", "order": "n", "time": "at", **changes})
        assert all(part in str(caught.value) for part in parts), caught.value

    assert "label" in decide(stream(columns), model, key="pump", order="n", time="at", max_wait=60).columns
    refused(InvalidParameter, "key names column 'pum'", "it has 'pump'", key="pum")
    refused(InvalidParameter, "key is column 'a' of type double", "expected string", "Cast it", key="a")
    refused(InvalidParameter, "order is column 'pump' of type string", "bigint", order="pump")
    refused(
        InvalidParameter,
        "a feature of the model names column 'b'",
        schema="pump string, n bigint, at double, a double, colour int",
    )
    refused(InvalidParameter, "time names column 'when'", time="when")
    refused(InvalidParameter, "batch_size", batch_size=0)
    refused(PersistenceError, "absent.osr", path=tmp_path / "absent.osr")
    session.conf.set(PROVIDER, ROCKSDB.replace("RocksDB", "HDFSBacked"))
    try:
        refused(InvalidParameter, "expected RocksDB", "spark.conf.set")
    finally:
        session.conf.set(PROVIDER, ROCKSDB)
