"""Text columns through a real broker: what the service decides is what the class does, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from stream_osr import ModelOptions, OpenSetRecognizer
from tests import examples
from tests.kafka.brokers import Broker
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once

STREAM, TEXT_FOR_NUMBER, NUMBER_FOR_TEXT, MISSING = 320, 100, 101, 102


def test_text_columns_as_json(broker: Broker, tmp_path: Path) -> None:
    """A stream of NSL-KDD's shape: text is no number, a number is a category where text is, and null is missing."""
    example = examples.example("intrusion")
    model = OpenSetRecognizer(batch_size=32, seed=1, chains=1, model=ModelOptions(window=32))
    for x, kind in example.labelled(300, np.random.default_rng(1)):
        model.learn_one(x, kind)
    model.freeze()
    assert set(model.trained.values) == {"protocol_type", "service", "flag"}
    drawn = list(example.stream(STREAM, np.random.default_rng(2)))
    drawn[TEXT_FOR_NUMBER][0]["src_bytes"] = "much"
    drawn[NUMBER_FOR_TEXT][0]["service"] = 8080
    drawn[MISSING][0]["flag"] = None
    stream = Stream(broker.address, tmp_path, 1, model, metrics_port=0)
    stream.send((0, Sent(b"%d" % n, json.dumps(x).encode())) for n, (x, _) in enumerate(drawn))
    worker = Worker(stream)
    stream.wait()
    said = metrics(worker)
    assert worker.stop() == 0
    check_exactly_once(stream)
    (dead,), (decisions,) = stream.read("dlq"), stream.read("decisions")
    (bad,) = dead
    assert bad.value == stream.sent[0][TEXT_FOR_NUMBER].value
    told = dict(bad.headers)
    assert told["__connect.errors.offset"] == b"%d" % TEXT_FOR_NUMBER
    assert b"feature 'src_bytes' is 'much'" in told["__connect.errors.exception.message"]
    assert total(said, "stream_osr_dead_letters_total") == 1
    assert total(said, "stream_osr_decisions_total") == len(decisions) == STREAM - 1
    numbered = drawn[NUMBER_FOR_TEXT][0]
    assert model.predict_proba_one(numbered) == model.predict_proba_one({**numbered, "service": "8080"})
    labels = {record.key: json.loads(record.value)["label"] for record in decisions}
    kinds = [kind for _, kind in drawn]
    right = [
        labels[b"%d" % n] == kinds[n] for n in range(STREAM) if n != TEXT_FOR_NUMBER and kinds[n] in example.KNOWN
    ]
    assert np.mean(right) > 0.95
