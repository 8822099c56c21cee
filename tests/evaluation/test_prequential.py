from __future__ import annotations

import json
from typing import Any

import pytest

from stream_osr import ModelOptions, OpenSetRecognizer, SubclassEmerged, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import InvalidParameter, NotTrained
from stream_osr.evaluation import AUROC, Err, OpenSetReport, patterns, prequential
from tests.blobs import ended, learn_all

KNOWN = ("cement", "grass", "path")
Pairs = list[tuple[dict[str, float], str]]


@pytest.fixture(scope="module")
def segments() -> Pairs:
    from river import datasets

    return list(datasets.ImageSegments())


@pytest.fixture(scope="module")
def stream(segments: Pairs) -> Pairs:
    """Instances of the known classes, and of sky from the hundredth on."""
    known = [(x, y) for x, y in segments if y in KNOWN][450:650]
    sky = [(x, y) for x, y in segments if y == "sky"][:60]
    mixed = [pair for two in zip(known[100:160], sky, strict=True) for pair in two]
    return known[:100] + mixed + known[160:]


@pytest.fixture(scope="module")
def trained(segments: Pairs) -> TrainedModel:
    model = OpenSetRecognizer(seed=1)
    learn_all(model, [(x, y) for x, y in segments if y in KNOWN][:450]).freeze()
    return model.trained


def recognizer(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, **grouped(**{"batch_size": 32, "seed": 1, **arguments}))


class Listening(OpenSetRecognizer):
    """Notes how many instances had come when each late label did."""

    came = 0

    def learn_one(self, x: Any, y: Any = None, **more: Any) -> None:
        self.came += 1
        super().learn_one(x, y, **more)

    def learn_label(self, key: Any, y: Any) -> None:
        self.__dict__.setdefault("heard", []).append((key, y, self.came))
        super().learn_label(key, y)


def late_labels(trained: TrainedModel, stream: Pairs, **arguments: Any) -> list[tuple[int, str, int]]:
    """Key and label of each late label, and how many instances had come before it."""
    model = Listening.from_trained(trained, batch_size=32, seed=1)
    result = prequential(stream, model, **arguments)
    assert result.labelled == len(model.heard)
    assert model.counters["unknown_keys"] == 0
    assert "sky" in model.predict_proba_one(stream[0][0])
    return model.heard


@pytest.mark.parametrize("decision_delay", [0, pytest.param(64, marks=pytest.mark.thorough)])
def test_scores_are_those_of_a_loop_by_hand(trained, stream, decision_delay):
    result = prequential(stream, recognizer(trained, decision_delay=decision_delay))
    model = recognizer(trained, decision_delay=decision_delay)
    at_once, final, score = OpenSetReport(KNOWN, "unknown"), OpenSetReport(KNOWN, "unknown"), AUROC(KNOWN)
    for key, (x, y) in enumerate(stream):
        at_once.update(y, model.predict_one(x))
        model.learn_one(x, key=key)
    for decision in ended(model):
        final.update(stream[decision.key][1], decision.label)
        score.update(stream[decision.key][1], decision.p_unknown)
    for found, expected in ((result.immediate, at_once), (result.final, final)):
        values = [metric.get() for metric in found][:4]
        assert values == pytest.approx([expected.m_new, expected.f_new, expected.err, expected.micro_f])
    assert result.final[5].get() == pytest.approx(score.get())
    assert at_once.counts != final.counts
    assert (result.seen, result.decided, result.labelled) == (len(stream), len(stream), 0)
    detection = result.detection.detections["sky"]
    assert detection.first == 101
    assert detection.instances == sum(y == "sky" for _, y in stream[: detection.announced + 1]) < 30


def test_groups_are_explained_once_their_subclass_is_announced(trained, segments):
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    stream = segments[1200:1600]
    result = prequential(stream, recognizer(trained, batch_size=8))
    model = recognizer(trained, batch_size=8)
    decisions = ended(learn_all(model, [(x, None) for x, _ in stream]))
    announced = {e.subclass_id: e.batch for e in model.drain_events() if isinstance(e, SubclassEmerged)}
    cer, unknown_rate, purity = patterns.CER(), patterns.UnkR(), patterns.Purity()
    for (_, y), d in zip(stream, decisions, strict=True):
        emerged = {key for key, batch in announced.items() if batch <= d.batch}
        explained = patterns.pattern_of(d, "unknown", emerged)
        for metric in (cer, unknown_rate, *([purity] if isinstance(explained, patterns.NoveltyPattern) else [])):
            metric.update(y, explained)
    assert [metric.get() for metric in result.groups][:3] == [cer.get(), unknown_rate.get(), purity.get()]
    assert 0 < unknown_rate.get() < 1
    new = [(y, d) for (_, y), d in zip(stream, decisions, strict=True) if y not in KNOWN]
    classes, groups = [y for y, _ in new], [str(d.subclass_id if d.label == "unknown" else d.label) for _, d in new]
    assert len(set(classes)) == 4
    assert result.groups[3].get() == pytest.approx(normalized_mutual_info_score(classes, groups))
    assert result.groups[4].get() == pytest.approx(adjusted_rand_score(classes, groups))


def test_labels_come_after_the_delay_and_their_share_is_drawn_from_the_seed(trained, stream):
    n = len(stream)
    for delay in (0, 7):
        expected = [(i, stream[i][1], i + delay + 1) for i in range(n - delay)]
        assert late_labels(trained, stream, delay=delay) == expected
    few, again, other = (late_labels(trained, stream, delay=0, label_share=0.3, seed=seed) for seed in (1, 1, 2))
    assert few == again != other
    assert 0.15 * n < len(few) < 0.45 * n
    assert prequential(stream[:40], recognizer(trained), delay=0, label_share=0.0).labelled == 0


def test_a_metric_receives_a_taught_class_by_its_name(trained, stream):
    from river import metrics

    without = prequential(stream, recognizer(trained), metrics.ConfusionMatrix())
    assert set(without.final[0].classes) <= {*KNOWN, "unknown"}
    taught = prequential(stream, recognizer(trained, batch_size=8), metrics.ConfusionMatrix(), delay=0)
    assert taught.final[0]["sky"]["sky"] > 20


def test_metrics_of_river_are_cloned_and_receive_labels_or_probabilities(trained, stream):
    from river import metrics

    given = metrics.MacroF1() + metrics.CrossEntropy() + metrics.ConfusionMatrix()
    result = prequential(stream, recognizer(trained), given, step=1000)
    assert given[2].total_weight == 0
    assert result.final[0].get() > 0.9
    assert 0 < result.final[1].get() < 1
    assert result.final[2].total_weight == result.immediate[2].total_weight == len(stream)
    assert set(result.history[-1].final) == {"MacroF1", "CrossEntropy"}


def test_history_at_intervals_and_when_all_is_decided(trained, stream):
    result = prequential(stream, recognizer(trained), Err(KNOWN), step=100)
    assert [(instant.seen, instant.decided) for instant in result.history] == [(100, 96), (200, 192), (260, 260)]
    assert result.history[-1].final == {"Err": result.final[0].get()}
    upto = prequential(stream[:100], recognizer(trained), Err(KNOWN))
    assert result.history[0].immediate == {"Err": upto.immediate[0].get()}
    assert prequential(stream, recognizer(trained), Err(KNOWN)).history == []


def test_skipped_instances_have_no_decision_and_shift_no_truth(trained, stream):
    holes = [pair for i, pair in enumerate(stream) for pair in ([({}, "sky"), pair] if i % 9 == 0 else [pair])]
    plain = prequential(stream, recognizer(trained))
    result = prequential(holes, recognizer(trained, on_missing="skip"), delay=None)
    assert (result.seen, result.decided) == (len(holes), len(stream))
    assert [metric.get() for metric in result.final] == [metric.get() for metric in plain.final]
    assert result.detection.detections == plain.detection.detections


def test_model_goes_on_from_where_it_was(trained, stream):
    whole, model = prequential(stream, recognizer(trained)), recognizer(trained)
    first, second = (prequential(part, model) for part in (stream[:96], stream[96:]))
    assert (first.decided, second.decided) == (96, len(stream) - 96)
    assert second.detection.detections == whole.detection.detections
    wrong = sum(part.decided * part.final[2].get() for part in (first, second))
    assert wrong == pytest.approx(len(stream) * whole.final[2].get())


def test_earlier_instances_are_not_scored_but_earlier_announcements_count(trained, stream):
    model = recognizer(trained)
    learn_all(model, [(x, None) for x, _ in stream[:170]])
    assert model.pending == 10
    result = prequential(stream[170:], model)
    assert result.decided == len(stream) - 170
    assert result.groups[2].cm.total_weight > 0.8 * sum(y == "sky" for _, y in stream[170:])


def test_time_is_handed_through(trained, stream):
    timed = [(x, y, {"t": 10.0 * i}) for i, (x, y) in enumerate(stream)]
    result = prequential(timed, recognizer(trained, batch_size=1000, max_wait=95.0), Err(KNOWN), step=50)
    assert [instant.decided for instant in result.history] == [40, 90, 140, 190, 240, 260]


def test_training_ends_and_figures_are_json(stream):
    model = learn_all(OpenSetRecognizer(batch_size=32, model=ModelOptions(training_sweeps=3)), stream[:100])
    result = prequential(stream[100:104], model, step=3)
    assert model.trained.labels
    figures = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert figures["detection"]["sky"]["announced"] is figures["detection"]["sky"]["instances"] is None
    assert figures["final"]["Err"] == result.final[2].get()


def test_invalid_arguments_are_refused(trained, stream):
    from river.metrics import MAE

    for wrong in ({"delay": -1}, {"label_share": 1.5}, {"step": -1}, {"metric": MAE()}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            prequential(stream, recognizer(trained), **wrong)
    with pytest.raises(NotTrained):
        prequential(stream, OpenSetRecognizer())
