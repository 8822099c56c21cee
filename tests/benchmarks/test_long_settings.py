"""The settings on long streams: what they are made of, and what is counted."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import numpy as np
import pytest

from benchmarks.discovery import ageing, closed20k, gaussians, million, mixtures, recurrence, switched
from benchmarks.discovery.__main__ import main
from benchmarks.discovery.streams import Problem, listen, recognizer
from stream_osr import SubclassEmerged
from tests.data import need_data

RARE, FREQUENT = 5, 6


@pytest.fixture(scope="module")
def classes() -> gaussians.Gaussians:
    return gaussians.make(2, 3)


@pytest.fixture(scope="module")
def given(classes) -> Problem:
    """Five known made-up classes, one unknown with 40 rows and one with 120."""
    rng = np.random.default_rng(0)
    y_train = np.repeat(np.arange(5), 60)
    y = rng.permutation(np.concatenate([np.repeat(np.arange(5), 100), [RARE] * 40, [FREQUENT] * 120]))
    X = classes.draw(y, rng)
    return Problem("LETTER", 3, classes.trained, classes.draw(y_train, rng), y_train, X, y, (RARE, FREQUENT))


# Mixtures of the known classes.


def test_known_rows_are_replaced_and_trained_on(given):
    made = mixtures.replace_known(given, mixtures.fit(given), np.random.default_rng(0))
    np.testing.assert_array_equal(made.y, given.y)
    np.testing.assert_array_equal(made.y_train, given.y_train)
    same = (made.X == given.X).all(axis=1)
    np.testing.assert_array_equal(same, ~given.of_known)
    assert not (made.X_train == given.X_train).any()
    assert made.trained.fingerprint != given.trained.fingerprint
    assert made.trained.report.known_recall > 0.9
    model = recognizer(made, 0, batch_size=64)
    heard = listen(model, made.X[made.of_known], made.y[made.of_known])
    assert np.mean([d.label == y for d, y in zip(heard.decisions, made.y[made.of_known], strict=True)]) > 0.9


# Long closed streams.


def test_long_closed_streams_print_and_write_figures(tmp_path, capsys, monkeypatch):
    need_data("COIL20")
    monkeypatch.setattr(closed20k, "INSTANCES", 500)
    path = tmp_path / "figures.json"
    main(["closed20k", "--seeds", "2", "--first-seed", "4", "--datasets", "COIL20", "--json", str(path)])
    runs = json.loads(path.read_text())["closed20k"]
    assert [(run["training"], run["seed"], run["instances"]) for run in runs] == [(0, 4, 500), (1, 5, 500)]
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["COIL20", "2"]


# Classes switched on.


def test_a_class_begins_where_it_is_said_to():
    y = np.array(["known"] * 4000 + ["a"] * 500 + ["b"] * 500)
    order = switched.lay_out(y, ("b", "a"), np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(5000))
    told = y[order]
    before_b, before_a = 4000 * 0.25, 4000 * 0.5 + 500 / 3
    first = {label: int(np.flatnonzero(told == label)[0]) for label in ("a", "b")}
    assert first["b"] == pytest.approx(before_b, rel=0.06)
    assert first["a"] == pytest.approx(before_a, rel=0.06)
    # spread evenly over what is left
    assert np.median(np.flatnonzero(told == "b")) == pytest.approx(2850, rel=0.06)
    other = switched.lay_out(y, ("b", "a"), np.random.default_rng(1))
    assert not np.array_equal(order, other)


def test_scores_of_emerging_subclasses(given):
    X, y, unknown = switched.rows_of(given)
    at = switched.lay_out(y, unknown, np.random.default_rng(0))
    heard = listen(recognizer(given, 0, batch_size=64), X[at], y[at])
    found = switched.scores(heard, y[at], given.trained.labels)
    announced = {e.subclass_id for e in heard.emerged}
    explained = [
        (d.subclass_id, y[at][d.seq]) for d in heard.decisions if d.label == -1 and d.subclass_id in announced
    ]
    largest = Counter()
    for (key, _), n in Counter(explained).items():
        largest[key] = max(largest[key], n)
    assert len(explained) > 60
    assert found["purity"] == pytest.approx(sum(largest.values()) / len(explained))
    # with one new class any grouping says nothing wrong of it unless it divides it
    assert found["ARI"] in (0.0, 1.0)


def test_switched_on_prints_and_writes_figures(tmp_path, capsys):
    need_data("SATIMAGE")
    path = tmp_path / "figures.json"
    main(["switched", "--seeds", "1", "--datasets", "SATIMAGE", "--json", str(path)])
    (run,) = json.loads(path.read_text())["switched"]
    assert sorted(run["begins"].values()) == list(run["begins"].values())
    for label, late in run["late in the class"].items():
        assert (late is None) == (run["late in the stream"][label] is None)
        assert late is None or late <= run["late in the stream"][label]
    assert f"{run['purity']:.3f}" in capsys.readouterr().out


# Recurrence.


def test_recurrence_is_counted(monkeypatch):
    monkeypatch.setattr(recurrence, "GONE_FOR", 1500)
    monkeypatch.setattr(recurrence, "PRESENT", 768)
    stream = recurrence.made_up(1)
    model = recurrence.OpenSetRecognizer.from_trained(stream.trained)
    heard = listen(model, stream.X, stream.y)
    found = recurrence.figures_of(stream, heard)
    old = {e.subclass_id for e in heard.emerged if e.seq < stream.gone}
    back = [d for d in heard.decisions if d.seq >= stream.back and stream.y[d.seq] == gaussians.KNOWN]
    assert found["old"] == len(old) >= 1
    assert found["returning"] == len(back) == 77
    assert found["under old"] == pytest.approx(sum(d.subclass_id in old for d in back) / 77)
    assert found["under old"] > 0.5
    assert found["under own"] <= found["under old"]
    assert found["called known"] == pytest.approx(sum(d.label in range(5) for d in back) / 77)
    assert found["emerged while gone"] + found["emerged on return"] + len(old) == len(heard.emerged)
    # had the first stretch ended before the announcement, it would be no old one
    early = recurrence.figures_of(stream._replace(gone=100), heard)
    assert early["old"] == early["under old"] == 0
    assert early["emerged while gone"] >= 1


# Ageing.


def test_states_are_kept_at_their_places_and_tries_leave_them_alone(given, monkeypatch):
    monkeypatch.setattr(ageing, "ORDERS", 1)
    mixture = mixtures.fit(given)
    states = list(ageing.grow_old(given, mixture, (650, 1300), chains=1, window=0))
    assert [pickle.loads(state).summary().stream_size for state, _ in states] == [650, 1300]
    first, again = (list(ageing.tries(states[1][0], given, mixture)) for _ in range(2))
    assert first == again
    assert [(label, number) for label, number, _ in first] == [(RARE, 0), (FREQUENT, 0)]
    assert all(1 <= instances <= 100 for _, _, instances in first)


# A million instances.


PLAN = million.Plan(instances=8000, classes=2, between=1000, stay=1000, gone=3000)


def test_fares_are_those_of_the_decisions(classes):
    y = million.truth(PLAN, np.random.default_rng(1))
    passed = million.run(classes, y, seed=0, chunk=2000)
    assert passed.seen == [2000, 4000, 6000, 8000]
    assert min(passed.megabytes) > 50
    model = million.OpenSetRecognizer.from_trained(classes.trained, seed=0)
    X = np.concatenate(
        [classes.draw(y[at : at + 2000], np.random.default_rng([0, at])) for at in range(0, 8000, 2000)]
    )
    heard = listen(model, X, y)  # the same stream, all at once
    assert [e.seq for e in passed.events if isinstance(e, SubclassEmerged)] == [e.seq for e in heard.emerged]
    for one in million.fares(PLAN, passed, y):
        label = gaussians.KNOWN + one["class"]
        own = {key for key, of in heard.times.classes.items() if of == label}
        mine = [d for d in heard.decisions if y[d.seq] == label]
        inside = [d for d in heard.decisions if d.subclass_id in own]
        assert own
        assert one["late"] == heard.times.detections[label].instances
        assert one["recall"] == pytest.approx(np.mean([d.label == -1 for d in mine]))
        assert one["purity"] == pytest.approx(np.mean([y[d.seq] == label for d in inside]))
        old = {e.subclass_id for e in heard.emerged if e.subclass_id in own and e.seq < PLAN.visits(one["class"])[1]}
        returned = [d.subclass_id in old for d in mine if d.seq >= PLAN.visits(one["class"])[1]]
        assert one["under old"] == pytest.approx(np.mean(returned))
    assert million.false_alarms(passed, y) == len(heard.times.false_alarms)
