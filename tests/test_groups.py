"""Training instances with a group (person, device, day): it is left out when its instances are scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stream_osr import Input, OpenSetRecognizer
from stream_osr.errors import InvalidInstance
from stream_osr.instances.features import Features
from stream_osr.model.feature_space import whitening
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.prior import homogeneous
from stream_osr.model.training import seat_by_groups
from stream_osr.training.training_set import TrainingSet
from stream_osr.trust import unseen_densities
from stream_osr.trust.recall import promise
from tests.oracles import balance as oracle
from tests.oracles import niw
from tests.test_cli import call
from tests.test_references import SMALL, problem, trained_on


def people(count: int, seed: int = 0, d: int = 4) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Draw two classes with an offset for each person, 60 instances a person, in bouts of 10."""
    rng = np.random.default_rng(seed)
    centre, y = 1.2 * rng.normal(size=(2, d)), np.tile(np.repeat([0, 1], 10), 3 * count)
    person = np.arange(len(y)) // 60
    own = centre[None] + 1.2 * rng.normal(size=(count, 2, d))
    frame = pd.DataFrame(own[person, y] + rng.normal(size=(len(y), d))).add_prefix("x")
    return frame, pd.Series([f"c{v}" for v in y]), pd.Series(person, name="person")


def learnt(count: int, order: str = "arrival", seed: int = 0, **changes: Any) -> OpenSetRecognizer:
    X, y, person = people(count, seed)
    model = OpenSetRecognizer(chains=2, input=Input(order=order))
    model.learn_many(X, y, **{"group": person, **changes})
    model.freeze()
    return model


def test_unseen_densities_are_those_of_a_model_of_the_other_groups() -> None:
    X, group = problem(11, 2)
    units = np.arange(33) % 3
    space, training, left_out = trained_on(X, group)
    dish = np.where(group == 0, np.arange(33) % 2, group + 1)
    seating = seat_by_groups(homogeneous(whiten(space, X)), group, dish, training.prior, exclusive=True)
    seating.franchise.alpha[:] = 3.0
    training, prior = training._replace(seating=seating), training.prior
    found = unseen_densities.unseen_densities(
        unseen_densities.TrainingRows(X, group, units), SMALL, [training], [left_out]
    )[0]
    base = niw.Full(2, prior.psi * prior.spread, prior.nu, prior.beta)
    whole = np.linalg.slogdet(space.forward)[1]
    for unit in range(3):
        held = units == unit
        expected = oracle.unseen(X, group, dish, held, base, 3.0, whitening.RIDGE) - whole
        np.testing.assert_allclose(found[held], expected, rtol=1e-6, atol=1e-6)


def test_many_groups_are_whole_in_ten_folds_of_similar_size() -> None:
    units = np.repeat(np.arange(23), np.arange(23) % 5 + 1)
    fold = unseen_densities._units_apart(np.zeros(len(units), int), units, np.full(len(units), -7))
    assert set(fold) == set(range(10))
    assert all(len(set(fold[units == unit])) == 1 for unit in range(23))
    assert np.ptp(np.bincount(fold)) <= 2
    assert (unseen_densities._units_apart(np.zeros(6, int), np.arange(6), np.zeros(6, int)) == np.arange(6)).all()


def test_a_class_keeps_instances_without_each_fold() -> None:
    units = np.repeat(np.arange(20), 2)
    whole = unseen_densities._units_apart(np.zeros(40, int), units, np.full(40, -7))
    together = np.flatnonzero(whole == whole[0])  # two groups
    group = np.zeros(40, int)
    group[together] = 1
    group[(units == units[~np.isin(np.arange(40), together)][0])] = 2  # one group
    fold = unseen_densities._units_apart(group, units, np.full(40, -7))
    assert len(set(fold[together])) == len(set(units[together])) == 2
    assert (fold[group == 2] == -7).all()


@pytest.mark.parametrize("order", ["arrival", "shuffled"])
def test_the_recall_for_a_new_person_is_lower_than_for_the_same(order: str) -> None:
    report = learnt(3, order).trained.report
    assert report.by_group is not None
    assert report.known_recall < report.by_group.same - 0.05
    new = f"for a new person: {report.known_recall:.3f} ("
    assert new in str(report)
    assert f"; for the same (3 in training): {report.by_group.same:.3f}" in str(report)
    without = learnt(3, order, group=None).trained.report
    assert without.by_group is None
    assert without.known_recall > report.known_recall


def test_the_interval_covers_the_recall_of_new_people() -> None:
    covered = 0
    for seed in range(5):
        model = learnt(3, seed=seed)
        low, high = model.trained.report.recall_interval or (0.0, 0.0)
        rng = np.random.default_rng(seed)
        centre = 1.2 * rng.normal(size=(2, 4))
        y = np.tile([0, 1], 1000)
        own = centre + 1.2 * np.random.default_rng(99).normal(size=(1000, 2, 4))
        X = own[np.arange(2000) // 2, y] + np.random.default_rng(98).normal(size=(2000, 4))
        right = model.predict_many(pd.DataFrame(X).add_prefix("x")) == np.array(["c0", "c1"])[y]
        covered += low <= right.mean() <= high
    assert covered >= 4


def test_the_interval_is_that_of_groups() -> None:
    group, units = np.arange(400) % 2, np.repeat(np.arange(4), 100)
    said = np.where(np.arange(400) < 40, 1 - group, group)
    density = np.where(said[:, None] == np.arange(2), 0.0, -9.0)
    rows, groups = promise([density], group), promise([density], group, units)
    assert rows.recall == groups.recall == 0.9
    sd = np.std([0.6, 1.0, 1.0, 1.0], ddof=1)
    assert groups.low == pytest.approx(0.9 - 3.18245 * sd * np.sqrt(1 / 4 + 1 / 3), abs=1e-5)
    assert groups.high == 1.0
    one = promise([density], group, np.zeros(400, int))
    assert (one.low, one.high) == (0.0, 1.0)


def test_classes_of_one_group_and_a_single_group() -> None:
    X, y, person = people(3)
    y[(person == 0) & (y == "c0")] = "own"
    model = OpenSetRecognizer(chains=2)
    model.learn_many(X, y, group=person)
    report = model.freeze()
    assert report.by_group is not None
    assert report.by_group.undivided == ("own",)
    assert "only one group has these classes, so it is not left out for them: 'own'" in str(report)
    alone = learnt(1).trained.report
    assert alone.recall_interval == (0.0, 1.0)
    assert "for a new person: not known" in str(alone)
    assert alone.known_recall == learnt(1, group=None).trained.report.known_recall


def test_groups_follow_their_rows_through_the_reservoir_and_a_state() -> None:
    training, features = TrainingSet(50, 0), Features(("at",))
    for at in range(500):
        training.add(features, np.array([[at]]), ["ab"[at % 2]], groups=[None if at < 100 else at // 100])
    for each in (training, TrainingSet.from_state(training.as_state())):
        groups = [row.group for own in each.rows for row in own]
        assert groups == [None if at < 100 else at // 100 for at in each.matrix()[1][:, 0]]
        assert each.units is not None
        assert len(set(each.units)) == 5, "those without a group are one"
    none = TrainingSet(50, 0)
    none.add(features, np.array([[1.0]]), ["a"])
    assert none.units is None


def test_all_ways_to_give_a_group_train_the_same_model(tmp_path: Path) -> None:
    model = learnt(3)
    X, y, person = people(3)
    ways = [OpenSetRecognizer(chains=2) for _ in range(3)]
    for x, label, group in zip(X.to_dict("records"), y, person, strict=True):
        ways[0].learn_one(x, label, group=group)
    ways[1].learn_many(iter([X.assign(y=y, person=person)]), "y", group="person")
    ways[2].learn_many(X[:100], y[:100], group=person[:100].to_numpy())
    ways[2].save(tmp_path / "training.osr")
    ways[2] = OpenSetRecognizer.load(tmp_path / "training.osr")
    ways[2].learn_many(X[100:], y[100:], group=person[100:].tolist())
    for each in ways:
        each.freeze()
        assert each.trained.fingerprint == model.trained.fingerprint
    model.save(tmp_path / "model.osr")
    again = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert again.trained.report == model.trained.report
    assert "promised for a new person: " in again.summary().text()


@pytest.mark.parametrize(("group", "message"), [([[1]] * 60, "row 0: group is"), ([1], "group has 1 entries for 60")])
def test_an_unusable_group_is_refused(group: Any, message: str) -> None:
    X, y, _ = people(1)
    with pytest.raises(InvalidInstance, match=message):
        OpenSetRecognizer().learn_many(X, y, group=group)


@pytest.mark.parametrize("name", ["labelled.csv", "labelled.jsonl"])
def test_the_column_of_the_command_line(name: str, tmp_path: Path) -> None:
    X, y, person = people(3)
    table = X.assign(label=y, person=person)
    lines = [json.dumps(row) + "\n" for row in table.to_dict("records")]
    (tmp_path / name).write_text(table.to_csv(index=False) if name.endswith("csv") else "".join(lines))
    fit = "fit", tmp_path / name, "--label", "label", "--chains", "2", "-o", tmp_path / "model.osr"
    done = call(*fit, "--group", "person")
    assert "for a new person: " in done.stderr
    model = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert model.trained.names == ("x0", "x1", "x2", "x3")
    assert model.trained.fingerprint == learnt(3).trained.fingerprint
    assert "--group persn: this is none of the columns" in call(*fit, "--group", "persn").stderr
