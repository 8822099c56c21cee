"""The settings on long streams: what they are made of, and what is counted."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import numpy as np
import pandas as pd
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


def test_components_are_found_where_there_are_rows_enough():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(200, 2)), 20 + rng.normal(size=(100, 2))])
    weight, mean, covariance = mixtures.fit_class(rows, seed=0)
    assert weight[mean[:, 0] > 10].sum() == pytest.approx(1 / 3)
    assert len(weight) >= 2
    assert np.linalg.eigvalsh(covariance).max() < 2.5  # none of them spans the gap
    weight, _, covariance = mixtures.fit_class(rows[:3], seed=0)
    assert weight.tolist() == [1.0]
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_draws_are_like_the_known_classes(given, classes):
    mixture = mixtures.fit(given)
    X, y = mixtures.draw_known(mixture, 20_000, np.random.default_rng(1))
    assert set(y.tolist()) == set(given.trained.labels)
    assert len(np.unique(X, axis=0)) == len(X)
    for label in given.trained.labels:
        drawn, trained = X[y == label], given.X_train[given.y_train == label]
        assert len(drawn) == pytest.approx(4000, rel=0.1)
        spread = np.sqrt(np.diag(classes.lower[label] @ classes.lower[label].T))
        assert np.abs(drawn.mean(axis=0) - trained.mean(axis=0)).max() < 0.15
        np.testing.assert_allclose(drawn.std(axis=0), spread, rtol=0.3)


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


def test_own_rows_are_known_and_come_once(given, monkeypatch):
    monkeypatch.setattr(closed20k, "INSTANCES", 300)
    streams = [closed20k.stream(given, None, np.random.default_rng(seed)) for seed in (0, 1)]
    for X, y in streams:
        assert X.shape == (300, gaussians.DIMENSION)
        assert len(np.unique(X, axis=0)) == 300
        assert set(y.tolist()) == set(range(5))
    assert not np.array_equal(streams[0][0], streams[1][0])


def test_long_closed_streams_print_and_write_figures(tmp_path, capsys, monkeypatch):
    need_data("COIL20")
    monkeypatch.setattr(closed20k, "INSTANCES", 500)
    path = tmp_path / "figures.json"
    main(["closed20k", "--seeds", "2", "--first-seed", "4", "--datasets", "COIL20", "--json", str(path)])
    runs = json.loads(path.read_text())["closed20k"]
    assert [(run["training"], run["seed"], run["instances"]) for run in runs] == [(0, 4, 500), (1, 5, 500)]
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["COIL20", "2"]


def test_percentile_is_of_streams():
    runs = [{"dataset": "LETTER", "called unknown": 0.5, "false": n} for n in [0] * 18 + [2, 7]]
    assert closed20k.table(runs).splitlines()[1].split() == ["LETTER", "20", "0.450", "2", "7", "0.100", "0.5000"]


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


def test_rare_unknown_classes_are_left_out(given):
    X, y, unknown = switched.rows_of(given)
    assert unknown == [FREQUENT]
    assert Counter(y.tolist()) == {**dict.fromkeys(range(5), 100), FREQUENT: 120}
    assert len(X) == len(y)


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


def test_new_classes_are_gone_between(given):
    stream = recurrence.made_up(0)
    new = stream.y == gaussians.KNOWN
    assert new[: stream.gone].sum() == new[stream.back :].sum() == 200
    assert not new[stream.gone : stream.back].any()
    assert stream.back - stream.gone == recurrence.GONE_FOR == 50_000
    assert len(np.unique(stream.X, axis=0)) == len(stream.X) == len(stream.y)


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


def test_short_streams_begin_with_the_new_class(given):
    mixture = mixtures.fit(given)
    X, y = ageing.short_stream(given, mixture, FREQUENT, np.random.default_rng(0))
    assert y[0] == FREQUENT
    assert Counter(label in range(5) for label in y.tolist()) == {True: 1900, False: ageing.ROWS}
    own = {row.tobytes() for row in given.X[given.y == FREQUENT]}
    assert all((row.tobytes() in own) == (label == FREQUENT) for row, label in zip(X, y.tolist(), strict=True))


def test_states_are_kept_at_their_places_and_tries_leave_them_alone(given, monkeypatch):
    monkeypatch.setattr(ageing, "ORDERS", 1)
    mixture = mixtures.fit(given)
    states = list(ageing.grow_old(given, mixture, (650, 1300), chains=1, window=0))
    assert [pickle.loads(state).summary().stream_size for state, _ in states] == [650, 1300]
    first, again = (list(ageing.tries(states[1][0], given, mixture)) for _ in range(2))
    assert first == again
    assert [(label, number) for label, number, _ in first] == [(RARE, 0), (FREQUENT, 0)]
    assert all(1 <= instances <= 100 for _, _, instances in first)


def test_table_of_ageing_compares_the_two_places():
    base = {"dataset": "LETTER", "variant": "cheap", "false alarms before": 0}
    runs = [{**base, "place": place, "instances": n} for place, n in ((10, 20), (10, 30), (100, 10), (100, None))]
    told = ageing.table(runs).splitlines()
    assert told[1].split()[2:] == ["2", "10", "25.0", "25.00", "1.000", "0.000", "0"]
    assert told[2].split()[2:] == ["2", "100", "inf", "55.00", "0.500", "0.500", "0"]
    assert told[3].endswith("2.200")


# A million instances.


PLAN = million.Plan(instances=8000, classes=2, between=1000, stay=1000, gone=3000)


def test_classes_come_and_go_as_planned():
    y = million.truth(PLAN, np.random.default_rng(0))
    for k, (first, back) in enumerate(((0, 4000), (1000, 5000))):
        assert PLAN.visits(k) == (first, back)
        places = np.flatnonzero(y == gaussians.KNOWN + k)
        inside = ((places >= first) & (places < first + 1000)) | ((places >= back) & (places < back + 1000))
        assert inside.all()
        assert {first, back} <= set(places.tolist())
        assert len(places) == pytest.approx(100, abs=35)
    whole = million.Plan()
    begins = sorted(begin for k in range(whole.classes) for begin in whole.visits(k))
    assert min(np.diff(begins)) >= whole.stay
    assert begins[-1] + whole.stay <= whole.instances
    assert whole.gone >= 50_000


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


def test_resident_set_sees_what_is_kept():
    before = million.resident()
    kept = np.ones(10_000_000)
    assert million.resident() - before == pytest.approx(kept.nbytes / 2**20, rel=0.1)


def test_frames_are_read_at_once(classes):
    # a frame that had to be read row by row would make every setting many times slower
    from stream_osr.features import frame_matrix

    frame = pd.DataFrame(np.zeros((2, gaussians.DIMENSION)), columns=list(classes.trained.names))
    assert frame_matrix(frame, classes.trained.features) is not None
