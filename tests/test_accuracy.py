"""Real data by the paper's protocol: what the whole of it, from dicts to decisions, must reach."""

from __future__ import annotations

import pytest

from benchmarks.paper.protocol import split
from stream_osr import OpenSetRecognizer
from stream_osr.evaluation import OpenSetReport
from tests.blobs import ended
from tests.data import need_data


@pytest.mark.needs("data")
@pytest.mark.thorough
@pytest.mark.parametrize("batch_size", [64, pytest.param(256, marks=pytest.mark.long)])
def test_pendigits_with_five_known_and_five_unknown_classes(batch_size):
    data = need_data("PENDIGITS")
    part = split(data.X, data.y, 5, 5, seed=0)
    model = OpenSetRecognizer(batch_size=batch_size, seed=0)
    for x, y in zip(part.X_train.tolist(), part.y_train.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), y)
    expected = model.freeze().known_recall
    report = OpenSetReport(part.known, -1)
    for seq, x in enumerate(part.X_test.tolist()):
        model.learn_one(dict(enumerate(x)), key=seq)
    for decision in ended(model):
        report.update(part.y_test[decision.key].item(), decision.label)
    assert report.micro_f >= 0.97
    assert report.unknown_recall >= 0.97
    # what the training report promises is what the stream gives, within two points
    assert abs(expected - report.known_accuracy) < 0.02
