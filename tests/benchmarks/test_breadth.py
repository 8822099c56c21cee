"""The benchmark on many tables: its division and its recipes are those that the record was made with."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from benchmarks.breadth import RECIPES, measure
from benchmarks.paper.datasets import data_directory
from benchmarks.tabular import BLOCKS, TABLES, divide
from tests.data import need_data

RECORD = dict(zip(RECIPES, ["KNN", "LOF", "Forest", "Mahalanobis", "ClassMahalanobis", "RFmax"], strict=True))
"""What the recipes are called in the record beside the tables."""


@pytest.mark.needs("data")
@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.long)])
def test_recipes_give_what_is_on_record(seed):
    need_data("WINE")
    with (data_directory() / "breadth" / "recipes.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == "WINE" and row["seed"] == str(seed)]
    record = {row["recipe"]: row for row in rows}
    for method, name in RECORD.items():
        found = measure("WINE", seed, method)
        for figure in ("micro_f", "auroc", "unknown_recall"):
            assert found[figure] == pytest.approx(float(record[name][figure]), abs=1e-4), (method, figure)


@pytest.mark.needs("data")
def test_every_table_divides_and_blocks_are_one_hot():
    for name, blocks in BLOCKS.items():
        X = need_data(name).X
        for block in (block for block in blocks if len(block) > 1):
            np.testing.assert_array_equal(X[:, block].sum(axis=1), 1.0)
        assert len({column for block in blocks for column in block}) == sum(map(len, blocks))
    for name in TABLES:
        data, part = need_data(name), divide(name, 0)
        assert len(part.X_train) + len(part.X_test) == len(data.y)
        assert set(part.y_train) == set(part.known) < set(part.y_test)
