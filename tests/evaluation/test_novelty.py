from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, metrics
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation import AUROC, Err, FNew, MNew, OpenSetMacroF, OpenSetMicroF, OpenSetReport
from tests.tiers import examples

KNOWN = ["a", "b", "c"]
OF_LABELS = [MNew, FNew, Err, OpenSetMicroF, OpenSetMacroF]
PAIRS = st.lists(st.tuples(st.sampled_from([*KNOWN, "y", "z"]), st.sampled_from([*KNOWN, "z", "unknown", 7, None])))
ANSWERS = st.lists(st.tuples(st.sampled_from(["a", "b", "z"]), st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0])))


def of(kind, pairs):
    metric = kind(KNOWN)
    for y_true, y_pred in pairs:
        metric.update(y_true, y_pred)
    return metric


def same(value, expected):
    return value == pytest.approx(expected, nan_ok=True)


@given(PAIRS)
def test_counting_is_that_of_the_report(pairs):
    report = OpenSetReport(KNOWN, "unknown")
    for y_true, y_pred in pairs:
        report.update(y_true, y_pred if y_pred in KNOWN else "unknown")
    assert same(of(MNew, pairs).get(), report.m_new)
    assert same(of(FNew, pairs).get(), report.f_new)
    assert same(of(Err, pairs).get(), report.err)
    assert same(of(OpenSetMicroF, pairs).get(), report.micro_f)


@settings(deadline=None)
@given(PAIRS.filter(len))
def test_values_are_those_of_scikit_learn_when_all_that_is_novel_has_one_name(pairs):
    y_true, y_pred = ([y if y in KNOWN else "unknown" for y in side] for side in zip(*pairs, strict=True))
    assert same(of(Err, pairs).get(), 1 - accuracy_score(y_true, y_pred))
    for kind, average in ((OpenSetMicroF, "micro"), (OpenSetMacroF, "macro")):
        expected = f1_score(y_true, y_pred, labels=KNOWN, average=average, zero_division=np.nan)
        assert same(of(kind, pairs).get(), expected)


@pytest.mark.parametrize("kind", OF_LABELS)
@examples(30)
@given(pairs=PAIRS, more=PAIRS, seed=st.randoms())
def test_order_does_not_matter_and_revert_undoes_update(kind, pairs, more, seed):
    metric = of(kind, pairs + more)
    mixed = pairs + more
    seed.shuffle(mixed)
    assert same(of(kind, mixed).get(), metric.get())
    for y_true, y_pred in more:
        metric.revert(y_true, y_pred)
    assert same(metric.get(), of(kind, pairs).get())


@pytest.mark.parametrize("kind", OF_LABELS)
def test_weight_is_as_good_as_repetition(kind):
    weighted = kind(KNOWN)
    for pair, w in ((("a", "a"), 3), (("a", "b"), 1), (("b", "z"), 2), (("z", "z"), 4), (("z", "a"), 2)):
        weighted.update(*pair, w)
    repeated = [("a", "a")] * 3 + [("a", "b")] + [("b", "z")] * 2 + [("z", "z")] * 4 + [("z", "a")] * 2
    assert weighted.get() == pytest.approx(of(kind, repeated).get())


@pytest.mark.parametrize("kind", OF_LABELS)
def test_one_confusion_matrix_serves_several(kind):
    matrix = metrics.ConfusionMatrix()
    other, metric = MNew(KNOWN, matrix), kind(KNOWN, matrix)
    pairs = [("a", "a"), ("a", "b"), ("b", "z"), ("z", "z"), ("z", "a")]
    for pair in pairs:
        other.update(*pair)
    assert metric.get() == of(kind, pairs).get()


@pytest.mark.parametrize("kind", [*OF_LABELS, AUROC])
def test_what_river_asks_of_a_metric(kind):
    metric = of(kind, [("a", 0.0), ("z", 1.0)] if kind is AUROC else [("a", "a"), ("b", "a"), ("z", "a"), ("a", "z")])
    worse, better = (0.8, 0.2) if kind in (MNew, FNew, Err) else (0.2, 0.8)
    assert metric.bigger_is_better == (better > worse)
    assert metric.works_with(OpenSetRecognizer())
    assert math.isnan(metric.clone().get())
    assert metric.clone().known == frozenset(KNOWN)
    assert pickle.loads(pickle.dumps(metric)).get() == metric.get()
    assert math.isnan(kind(KNOWN).get())
    with pytest.raises(InvalidParameter, match="known is empty"):
        kind([])


@given(ANSWERS)
def test_auroc_is_that_of_scikit_learn(answers):
    novel = [y not in KNOWN for y, _ in answers]
    expected = roc_auc_score(novel, [p for _, p in answers]) if len(set(novel)) == 2 else math.nan
    assert same(of(AUROC, answers).get(), expected)


@given(ANSWERS, ANSWERS)
def test_auroc_takes_answers_back(answers, more):
    metric = of(AUROC, answers + more)
    for y_true, p in more:
        metric.revert(y_true, p)
    assert same(metric.get(), of(AUROC, answers).get())


def test_auroc_reads_probabilities_of_labels():
    metric, plain = AUROC(KNOWN), AUROC(KNOWN)
    for y_true, proba, novel in (
        ("a", {"a": 0.5, "b": 0.25, "unknown": 0.25}, 0.25),
        ("z", {"a": 0.5, "z": 0.25, "unknown": 0.25}, 0.5),
        ("z", {"a": 1.0}, 0.0),
    ):
        metric.update(y_true, proba, 2)
        plain.update(y_true, novel)
        plain.update(y_true, novel)
    assert metric.get() == plain.get() == 0.5


def test_auroc_refuses_what_is_no_answer():
    metric = of(AUROC, [("a", 0.1), ("z", 0.2)])
    with pytest.raises(InvalidParameter, match="nan"):
        metric.update("a", {"a": 0.5, "z": math.nan})
    with pytest.raises(InvalidParameter, match="whole number"):
        metric.update("a", 0.5, 0.5)
    assert metric.get() == 1


def test_metrics_work_in_a_loop_of_river():
    known = ["grass", "path", "cement"]
    data = list(datasets.ImageSegments().take(150))
    together = MNew(known) + Err(known) + metrics.Accuracy()
    evaluate.progressive_val_score(data, OpenSetRecognizer(batch_size=16), together)
    scores = evaluate.progressive_val_score(data, OpenSetRecognizer(batch_size=16), AUROC(known))
    model = OpenSetRecognizer(batch_size=16)
    answers, probabilities = [], []
    for x, y in data:
        if (answer := model.predict_one(x)) is not None:
            answers.append((y, answer))
            proba = model.predict_proba_one(x)
            probabilities.append((y not in known, sum(p for c, p in proba.items() if c not in known)))
        model.learn_one(x, y)
    novel = [answer in known for y, answer in answers if y not in known]
    assert together[0].get() == sum(novel) / len(novel) > 0
    wrong = [y != answer and (y in known or answer in known) for y, answer in answers]
    assert together[1].get() == sum(wrong) / len(wrong)
    assert scores.get() == pytest.approx(roc_auc_score(*zip(*probabilities, strict=True)))
