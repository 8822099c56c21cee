"""A micro-batch that fails as a whole: only the records by which it fails become dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.commands.command import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import partition as closing
from stream_osr_connectors.kafka.run.partition import Partition, begin, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message, PartitionOutput
from tests.blobs import fitted_once, stream_part

DECODE = JsonDecoder(JsonFields(label="y", features=["a", "b"]), 1000)
PLACE = Place("in", 3)
SIZE = 64


class Failing:
    """Makes micro-batches fail that hold one of some instances, and counts how often one is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, keys: Iterable[str], labels: Iterable[str] = ()) -> None:
        self.closed = 0
        close, keys, labels = OpenSetRecognizer.close_batch, {*keys}, {*labels}

        def close_or_fail(model: OpenSetRecognizer) -> None:
            self.closed += 1
            found = sorted(keys & {arrived.key for arrived in model.value.buffer})
            found += sorted(labels & {evidence.label for evidence in model.value.evidence})
            if found:
                raise FloatingPointError(f"by order of the test: {found}")
            close(model)

        monkeypatch.setattr(OpenSetRecognizer, "close_batch", close_or_fail)


@pytest.fixture
def before() -> Partition:
    model = fitted_once(chains=1, decision_delay=20, seed=5, batch_size=1 << 62)
    return advance(begin(model, Boundary(0)), records(40))[0]


def records(n: int, begin: int = 0) -> list[Message]:
    return [
        Message("in", 3, begin + i, 1000 * (begin + i), b"k%d" % (begin + i), json.dumps(x).encode(), [])
        for i, (x, _) in enumerate(stream_part(n, begin))
    ]


def advance(partition: Partition, batch: list[Message], commands: Any = ()) -> tuple[Partition, PartitionOutput]:
    return step(partition, PLACE, batch, commands, Boundary(batch[-1].offset + 1), DECODE)


@pytest.mark.parametrize(
    "culprits", [["k40"], ["k71"], ["k103"], ["k50", "k51"], ["k40", "k60", "k103"], [f"k{n}" for n in range(60, 65)]]
)
def test_the_others_are_decided_as_if_it_had_not_been_there(
    before: Partition, monkeypatch: pytest.MonkeyPatch, culprits: list[str], caplog: Any
) -> None:
    batch = records(SIZE, 40)
    batch[7] = batch[7]._replace(value=b"{")
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "left"}')
    expected, without = advance(before, [r for r in batch if (r.key or b"").decode() not in culprits])
    with monkeypatch.context() as patch:
        Failing(patch, culprits)
        after, outcome = advance(before, batch)
        again = advance(before, batch)[1]
    assert [(d, origin) for origin, d in outcome.decisions] == [(d, origin) for origin, d in without.decisions]
    assert after.waiting == expected.waiting
    assert (len(outcome.taken.labelled), outcome.taken.missing, outcome.taken.values) == (1, 0, without.taken.values)
    told = {f"k{r.offset}": (refusal.stage, str(refusal.error)) for r, refusal in outcome.taken.refused}
    assert [*told] == sorted({"k47", *culprits}, key=lambda key: int(key[1:])), "in their order"
    assert told.pop("k47")[0] == "DECODE"
    for culprit, (stage, error) in told.items():
        assert stage == "PROCESS"
        assert f"'{culprit}'" in error, "each has the reason that is its own"
    assert again.decisions == outcome.decisions
    assert after.model.counters["refused"] == after.model.signals.data_quality == len(outcome.taken.refused)
    assert [r.offset for r, _ in again.taken.refused] == [r.offset for r, _ in outcome.taken.refused]
    following = records(SIZE, 200)
    assert advance(after, following)[1] == advance(expected, following)[1]
    assert "failed. Dead letters are the records that cause the failure: " in caplog.text


def test_a_label_may_be_what_it_fails_by(before: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = records(SIZE, 40)
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "evil"}')
    Failing(monkeypatch, [], ["evil"])
    _, outcome = advance(before, batch)
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(49, "PROCESS")]
    assert len(outcome.taken.labelled) == 0
    assert len(outcome.decisions) == SIZE - 1


@pytest.mark.parametrize("keys", [None, [f"k{n}" for n in range(40, 104, 2)]])
def test_without_an_end_all_of_it_are_dead_letters(
    before: Partition, monkeypatch: pytest.MonkeyPatch, keys: list[str] | None
) -> None:
    """It fails without any record (by a command of ours, say), or by too many: bounded, and everything is told of."""
    batch = records(SIZE, 40)
    batch[7] = batch[7]._replace(value=b"{")
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "left"}')
    commands = [] if keys else [parse_record(b'{"key": "k3", "label": "evil"}')]
    failing = Failing(monkeypatch, keys or [], ["evil"])
    after, outcome = advance(before, batch, commands)
    assert [r.offset for r, _ in outcome.taken.refused] == list(range(40, 104)), "the labelled one, too"
    assert {refusal.stage for _, refusal in outcome.taken.refused} == {"DECODE", "PROCESS"}
    assert (outcome.decisions, len(outcome.taken.labelled), outcome.taken.values) == ([], 0, 0)
    was, now = before.model.as_state(), after.model.as_state()
    assert now.pop("counters") == {**was.pop("counters"), "refused": SIZE, "bad_rows": SIZE}
    assert (now, after.model.value.stream) == (was, before.model.value.stream)
    assert failing.closed <= 2 * closing.MOST_TRIES


def test_a_marker_of_a_missing_value_is_no_number() -> None:
    model = fitted_once(chains=1, seed=5, batch_size=1 << 62, missing=["-999"])
    batch = records(8)
    batch[3] = batch[3]._replace(value=b'{"a": -999, "b": 0.1}')
    _, outcome = advance(begin(model, Boundary(0)), batch)
    assert (outcome.taken.missing, len(outcome.decisions)) == (1, 8)
