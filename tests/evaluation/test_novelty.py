from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation import AUROC, Err, FNew, MNew, OpenSetMacroF, OpenSetMicroF, OpenSetReport
from tests.tiers import examples

KNOWN = ["a", "b", "c"]
OF_LABELS = [MNew, FNew, Err, OpenSetMicroF, OpenSetMacroF]
PAIRS = st.lists(st.tuples(st.sampled_from([*KNOWN, "y", "z"]), st.sampled_from([*KNOWN, "z", "unknown", 7, None])))
ANSWERS = st.lists(st.tuples(st.sampled_from(["a", "b", "z"]), st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0])))


def of(kind, pairs, *arguments):
    metric = kind(KNOWN, *arguments)
    for y_true, y_pred in pairs:
        metric.update(y_true, y_pred)
    return metric


def same(value, expected):
    return value == pytest.approx(expected, nan_ok=True)


@examples(100)
@given(PAIRS)
def test_counting_is_that_of_the_report(pairs):
    report = OpenSetReport(KNOWN, "unknown")
    for y_true, y_pred in pairs:
        report.update(y_true, y_pred if y_pred in KNOWN else "unknown")
    for kind, name in ((MNew, "m_new"), (FNew, "f_new"), (Err, "err"), (OpenSetMicroF, "micro_f")):
        assert same(of(kind, pairs).get(), getattr(report, name))


@pytest.mark.thorough
@examples(100)
@given(PAIRS.filter(len))
def test_values_are_those_of_scikit_learn_when_all_novel_classes_have_one_name(pairs):
    from sklearn.metrics import accuracy_score, f1_score

    y_true, y_pred = ([y if y in KNOWN else "unknown" for y in side] for side in zip(*pairs, strict=True))
    assert same(of(Err, pairs).get(), 1 - accuracy_score(y_true, y_pred))
    for kind, average in ((OpenSetMicroF, "micro"), (OpenSetMacroF, "macro")):
        expected = f1_score(y_true, y_pred, labels=KNOWN, average=average, zero_division=np.nan)
        assert same(of(kind, pairs).get(), expected)


@pytest.mark.parametrize("kind", OF_LABELS)
@examples(30)
@given(pairs=PAIRS, more=PAIRS, seed=st.randoms())
def test_order_does_not_matter_and_revert_undoes_update(kind, pairs, more, seed):
    metric, mixed = of(kind, pairs + more), pairs + more
    seed.shuffle(mixed)
    assert same(of(kind, mixed).get(), metric.get())
    for y_true, y_pred in more:
        metric.revert(y_true, y_pred)
    assert same(metric.get(), of(kind, pairs).get())


@pytest.mark.parametrize("kind", OF_LABELS)
def test_a_weight_counts_like_repetition_and_one_confusion_matrix_serves_several(kind):
    from river.metrics import ConfusionMatrix

    pairs = {("a", "a"): 3, ("a", "b"): 1, ("b", "z"): 2, ("z", "z"): 4, ("z", "a"): 2}
    weighted, matrix = kind(KNOWN), ConfusionMatrix()
    sharing = kind(KNOWN, matrix)
    for pair, w in pairs.items():
        weighted.update(*pair, w)
    assert weighted.get() == pytest.approx(of(kind, [pair for pair, w in pairs.items() for _ in range(w)]).get())
    of(MNew, pairs, matrix)
    assert sharing.get() == of(kind, pairs).get()


@pytest.mark.parametrize("kind", [*OF_LABELS, AUROC])
def test_a_metric_has_what_river_requires(kind):
    metric = of(kind, [("a", 0.0), ("z", 1.0)] if kind is AUROC else [("a", "a"), ("b", "a"), ("z", "a"), ("a", "z")])
    assert metric.bigger_is_better == (kind not in (MNew, FNew, Err))
    assert metric.works_with(OpenSetRecognizer())
    assert math.isnan(metric.clone().get())
    assert metric.clone().known == frozenset(KNOWN)
    assert pickle.loads(pickle.dumps(metric)).get() == metric.get()
    assert math.isnan(kind(KNOWN).get())
    with pytest.raises(InvalidParameter, match="known is empty"):
        kind([])


@examples(100)
@given(ANSWERS, ANSWERS)
def test_auroc_is_that_of_scikit_learn_and_revert_undoes_update(answers, more):
    from sklearn.metrics import roc_auc_score

    novel = [y not in KNOWN for y, _ in answers]
    expected = roc_auc_score(novel, [p for _, p in answers]) if len(set(novel)) == 2 else math.nan
    assert same(of(AUROC, answers).get(), expected)
    metric = of(AUROC, answers + more)
    for y_true, p in more:
        metric.revert(y_true, p)
    assert same(metric.get(), expected)


def test_auroc_reads_probabilities_of_labels_and_refuses_others():
    metric = AUROC(KNOWN)
    metric.update("a", {"a": 0.5, "b": 0.25, "unknown": 0.25}, 2)
    metric.update("z", {"a": 0.5, "z": 0.25, "unknown": 0.25}, 2)
    metric.update("z", {"a": 1.0}, 2)
    assert metric.get() == of(AUROC, [("a", 0.25), ("z", 0.5), ("z", 0.0)] * 2).get() == 0.5
    with pytest.raises(InvalidParameter, match="nan"):
        metric.update("a", {"a": 0.5, "z": math.nan})
    with pytest.raises(InvalidParameter, match="whole number"):
        metric.update("a", 0.5, 0.5)
    assert metric.get() == 0.5


@pytest.mark.thorough
def test_metrics_work_in_a_loop_of_river():
    from river import datasets, evaluate, metrics

    known = ["grass", "path", "cement"]
    data = list(datasets.ImageSegments().take(150))
    together = MNew(known) + Err(known) + metrics.Accuracy()
    evaluate.progressive_val_score(data, OpenSetRecognizer(batch_size=16), together)
    scores = evaluate.progressive_val_score(data, OpenSetRecognizer(batch_size=16), AUROC(known))
    model, labels, probabilities = OpenSetRecognizer(batch_size=16), [], []
    for x, y in data:
        if (label := model.predict_one(x)) is not None:
            labels.append((y, label))
            probabilities.append((y, model.predict_proba_one(x)))
        model.learn_one(x, y)
    for metric, pairs in ((together[0], labels), (together[1], labels), (scores, probabilities)):
        expected = metric.clone()
        for pair in pairs:
            expected.update(*pair)
        assert metric.get() == pytest.approx(expected.get())
        assert metric.get() > 0
