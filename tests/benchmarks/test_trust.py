"""``python -m benchmarks.trust``: streams are as described, runs are kept, and tables show the criteria."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.trust import closed, overlap, running
from benchmarks.trust.__main__ import main
from benchmarks.trust.criteria import criteria
from benchmarks.trust.running import Run, read
from stream_osr import OpenSetRecognizer
from stream_osr.evaluation import expected_calibration_error


def same(a, b) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("X_train", "y_train", "X", "y"))


@pytest.mark.parametrize("stream", [s for s in closed.STREAMS if s.split("/")[0] in ("river", "gaussians", "blobs")])
def test_a_closed_stream_is_that_of_its_seed_and_has_no_new_class(stream):
    given, again, other = (closed.problem(stream, seed, 500) for seed in (3, 3, 4))
    assert len(given.X) == len(given.y) == 500
    assert given.arguments == {}
    assert set(given.y.tolist()) <= set(given.y_train.tolist())
    assert same(given, again)
    assert not same(given, other)
    family, name = stream.split("/")
    if family == "river":
        assert len(given.X_train) == 2000
        assert given.y.dtype.kind == "U"
    else:
        counts = np.unique(given.y_train, return_counts=True)[1]
        assert counts.tolist() == ([int(name)] * 8 if family == "gaussians" else [50] * 4)
        assert given.X.shape[1] == (10 if family == "gaussians" else int(name))


def test_overlap_is_the_mass_that_two_classes_share():
    at = np.linspace(-12, 12, 100_001)
    for share in (0.2, 0.5, 0.8):
        common = np.minimum(norm.pdf(at), norm.pdf(at - overlap.distance(share)))
        assert np.trapezoid(common, at) == pytest.approx(share, abs=1e-6)


def test_a_new_class_comes_after_a_third_and_the_true_probability_is_calibrated():
    given, begins, bayes = overlap.make("4-features/50", 0, 30_000)
    new = given.y == overlap.KNOWN
    assert begins == 10_000
    assert not new[:begins].any()
    assert new[begins:].mean() == pytest.approx(0.25, abs=0.02)
    assert expected_calibration_error(bayes, new) < 0.01


class Expected(NamedTuple):
    recall: float
    low: float
    high: float
    false_unknown: float


def test_runs_are_kept_and_tables_are_printed(tmp_path, monkeypatch, capsys):
    path, before = tmp_path / "now.jsonl", tmp_path / "before.jsonl"
    options = ["--only", "gaussians/20,4-features/50,gaussians,demo", "--parts", "closed,overlap,persistent,demo"]
    options += ["--length", "600", "--seeds", "0"]
    expected = Expected(0.9, 0.5, 1.0, 0.05)
    for figures, file in ((None, before), (expected, path)):
        with monkeypatch.context() as patched:
            patched.setattr(OpenSetRecognizer, "expected_recall", property(lambda self, figures=figures: figures))
            assert main([*options, "--json", str(file)]) == 0
    runs = read(path)
    assert len(runs) == 3 + 1 + 1 + 1
    windows = runs[Run("closed", "gaussians/20", 0, 600)]["windows"]
    assert [window[0] for window in windows] == [256, 256]  # what is left is too short
    assert windows[0][3] == list(expected)
    assert read(before)[Run("closed", "gaussians/20", 0, 600)]["windows"][0][3] is None
    monkeypatch.setattr(running, "measure", lambda run: 1 / 0)
    assert main([*options, "--json", str(path)]) == 0  # nothing is measured again
    capsys.readouterr()
    assert main(["--table", str(path), "--against", str(before)]) == 0
    printed = capsys.readouterr().out
    for text in ("## Closed streams (seeds 0)", "now less before", "interval covers 90 %", "three new classes"):
        assert text in printed


def record(stream: str, *seeds: int, **figures) -> list[tuple[Run, dict]]:
    usual = {"n_train": 2000, "n": 1000, "promised": 0.98, "frozen": 0.97, "right": 0.97, "right_last": 0.97}
    usual |= {"unknown": 0.01, "unknown_last": 0.01, "announced": 0, "windows": [], "seconds": 1.0, "status": "done"}
    runs = [Run("closed", stream, seed) for seed in seeds]
    return [(run, {**run._asdict(), **usual, **figures}) for run in runs]


def verdicts(records, before=()) -> list[bool]:
    return [one.met for one in criteria(dict(records), dict(before))]


def test_each_criterion_can_fail():
    good = record("river/SEA0", 0, 1, 2)
    assert verdicts(good) == [True] * 6
    bad = [run for seed in range(3) for run in record("river/SEA1", seed, right_last=0.9 + 0.001 * seed)]
    assert verdicts([*good, *bad]) == [False, True, True, True, True, True]
    lost = record("river/SEA1", 0, 1, 2, right=0.5, unknown=0.4, unknown_last=0.9, announced=1)
    assert verdicts([*good, *lost]) == [True, False, False, False, False, False]
    noisy = [*record("river/SEA1", 0, announced=True), *record("river/SEA1", 1, 2)]  # .33, standard error .33
    assert verdicts(noisy) == [True] * 6
    assert verdicts(good, record("river/SEA0", 0, 1, 2, seconds=0.8))[-1] is False


def test_the_live_figure_is_judged_by_windows():
    near, far = [500, 0.97, 0.01, [0.96, 0.9, 1.0, 0.02]], [500, 0.80, 0.01, [0.96, 0.9, 1.0, 0.02]]
    short, silent = [50, 0.1, 0.9, [0.96, 0.9, 1.0, 0.02]], [500, 0.1, 0.9, None]

    def judged(stream, *windows, **figures):
        return verdicts(record(stream, 0, windows=[*windows], **figures))[6:]

    assert judged("river/SEA0", *[near] * 9, short, silent) == [True, True]
    assert judged("river/SEA0", *[near] * 9, far) == [False, False]
    assert judged("gaussians/5", *[near] * 9, far, n_train=40) == [True]
    assert judged("gaussians/5", *[near] * 8, far, n_train=40) == [False]
