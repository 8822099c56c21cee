"""The setting on partitions: who is in which cluster, and what goes on when a merge has ended an identity."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.discovery import partitions
from benchmarks.discovery.partitions import Heard, global_clusters, in_turn, join_all, listen, named
from benchmarks.discovery.streams import Problem, prepare, recognizer
from tests.data import need_data

TOLD = {"size": 9, "batch": 0, "seq": 0, "model": ""}


@pytest.fixture(scope="module")
def coil() -> Problem:
    need_data("COIL20")
    return prepare("COIL20", 100)


@pytest.fixture(scope="module")
def several(coil) -> list[Heard]:
    return [listen(recognizer(coil, n, batch_size=len(coil.X) + 1), coil.X[n::2]) for n in range(2)]


def test_every_instance_has_a_cluster_and_links_only_join_them(coil, several):
    state, _ = join_all(in_turn(several), coil)
    labels, n = coil.trained.labels, len(coil.y)
    alone, joined = (global_clusters(several, links, labels, n) for links in ({}, state.links))
    assert {int(key) for key in np.unique(alone[0::2])} & {int(key) for key in np.unique(alone[1::2])} <= set(
        range(-1 - len(labels), 0)
    )
    for key in np.unique(alone):
        assert len(np.unique(joined[alone == key])) == 1
    assert len(np.unique(joined)) < len(np.unique(alone))
    np.testing.assert_array_equal(alone < 0, joined < 0)
    for number, heard in enumerate(several):
        assert len(named(heard)) == len(coil.y[number::2])


def test_figures_and_their_table(coil, several):
    one = listen(recognizer(coil, 100, batch_size=len(coil.X) + 1), coil.X)
    figures = {"dataset": "COIL20", "seed": 100, **partitions.scores(coil, coil.y, one, several)}
    assert figures["same"]
    assert figures["global"] <= figures["local"]
    assert "COIL20 mean" in partitions.table([figures, {**figures, "seed": 101}])
    assert "NO" in partitions.table([{**figures, "same": False}])
