"""Several models that are averaged, decisions that wait, labels that ask for a least probability."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from stream_osr import ModelOptions, OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import InvalidParameter
from stream_osr.model import sampler as sampler
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.stream.predictions import PredictiveCache
from stream_osr.trust.prior_odds import shift_odds
from tests.blobs import KNOWN, bits, check_stream, ended, fitted, further, stream_part
from tests.model.immediate import immediate

PARAMETERS: dict[str, Any] = {"batch_size": 16, "window": 48, "half_life": 100.0, "seed": 5}
N = 200
LEAST = 0.9


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(training_sweeps=10).trained


def recognizer(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, **grouped(**{**PARAMETERS, **arguments}))


def stream(model: OpenSetRecognizer, n: int = N, start: int = 0) -> OpenSetRecognizer:
    for i, (x, _) in enumerate(stream_part(n)):
        if i >= start:
            model.learn_one(x, t=float(i), key=f"k{i}")
    return model


# Averages


class Steps:
    """Records what every chain found in every batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: list[sampler.BatchResult] = []
        original = sampler.step

        def step(*arguments: Any) -> Any:
            state, result = original(*arguments)
            self.results.append(result)
            return state, result

        monkeypatch.setattr(sampler, "step", step)

    def batches(self, chains: int) -> list[list[sampler.BatchResult]]:
        return [self.results[at : at + chains] for at in range(0, len(self.results), chains)]


@pytest.fixture(scope="module")
def unguarded(trained):
    """Without references: the decisions are those of the sampler."""
    return dataclasses.replace(trained, references=None)


@pytest.mark.parametrize("learn", [True, *further(False)])
def test_immediate_probabilities_are_means_too(unguarded, learn):
    model = stream(recognizer(unguarded, chains=3, learn_odds=learn))
    model.flush()
    values = np.random.default_rng(0).normal(scale=6.0, size=(5, 2))
    rows = whiten(unguarded.whitening, values)
    cache = PredictiveCache(unguarded, model.value.stream, model.value.parameters)
    each = [immediate(c.known, c.frozen, c.state, rows) for c in model.value.stream.chains]
    expected = shift_odds(model.value.stream.odds, np.mean(each, axis=0))
    np.testing.assert_allclose(cache.probabilities(values), expected, rtol=1e-7, atol=1e-9)
    assert cache.probabilities(values[:0]).shape == (0, 3)


def test_any_number_of_chains_over_any_number_of_draws(trained):
    model, alone = (stream(recognizer(trained, chains=chains)) for chains in (6, 1))
    assert len(trained.draws) == 4
    for number, chain in enumerate(model.value.stream.chains):
        assert chain.known is trained.draws[number % 4]
        assert chain.frozen is trained.densities[number % 4]
    states = [bits(chain.state) for chain in model.value.stream.chains]
    assert len(set(states)) == 6  # also two over the same draw
    check_stream(model.value.stream)
    assert bits(alone.value.stream.state) == states[0], "the first does not depend on the others"
    assert alone.summary().emerging == model.summary().emerging


def test_two_classes_place_no_new_subclasses():
    model = fitted(training_sweeps=10, **PARAMETERS)
    assert all(known.location.freedom == 0 for known in model.trained.draws)  # two do not foresee each other
    stream(model).flush()
    known_ids = {key for group in model.summary().known for key, _ in group.subclasses}
    assert all(d.subclass_id in known_ids for d in model.drain() if d.label != "unknown")


@pytest.mark.parametrize(("n", "first"), [(23, False), (22, True), *further((80, False))])
def test_three_classes_place_new_subclasses_in_some_chains_and_the_first_is_a_drawn_one_if_they_are_small(n, first):
    # three features and 20 more are the degrees of freedom of the coarse chain
    model, rng = OpenSetRecognizer(model=ModelOptions(training_sweeps=2)), np.random.default_rng(0)
    for i in range(3 * n):
        model.learn_one(dict(zip("abc", rng.normal(np.eye(3)[i % 3] * 12).tolist(), strict=True)), i % 3)
    model.freeze()
    placed = [known.location.freedom > 0 for known in model.trained.draws]
    assert placed == [first, not first, False, True]
    coarse = model.trained.draws[int(first)]
    assert (coarse.prior.nu, coarse.prior.beta) == (23, 0.1)


@pytest.mark.parametrize("ensemble", ["mixed", "drawn"])
def test_parameters_that_are_given_hold_in_every_chain(ensemble):
    model = fitted(nu=9.0, scale=0.5, beta=0.2, ensemble=ensemble, training_sweeps=3)
    for known in model.trained.draws:
        assert (known.prior.nu, known.prior.psi, known.prior.beta) == (9.0, 4.5, 0.2)


# Decisions that wait


@pytest.mark.parametrize("delay", [20, *further(48), pytest.param(16, marks=pytest.mark.long)])
def test_every_instance_is_decided_once_in_order_and_not_before_its_time(trained, delay):
    plain = stream(recognizer(trained, decision_delay=1))
    soon = ended(plain)
    model, decisions, decided = recognizer(trained, decision_delay=delay), [], 0
    for i, (x, _) in enumerate(stream_part(N)):
        model.learn_one(x, t=float(i), key=f"k{i}")
        decisions += model.drain()
        decided = (i + 1) // 16 * 16
        assert len(decisions) == max(0, decided - delay)
        assert model.pending == i + 1 - len(decisions)
        check_stream(model.value.stream)
    model.flush()
    decisions += model.drain()
    assert model.pending == 0
    assert [d.seq for d in decisions] == list(range(N))
    assert [(d.key, d.t) for d in decisions] == [(f"k{i}", float(i)) for i in range(N)]
    assert [d.first_label for d in decisions] == [d.first_label for d in soon]
    assert [d.batch for d in decisions] == [d.batch for d in soon]
    assert bits(model.value.stream.chains) == bits(plain.value.stream.chains)  # whatever the delay
    for d in decisions:
        assert d.probability == d.probabilities[d.label] == max(d.probabilities.values())
        assert d.p_unknown == d.probabilities["unknown"]
        assert sum(d.probabilities.values()) == pytest.approx(1, abs=1e-9)
    assert any(a.probabilities != b.probabilities for a, b in zip(decisions, soon, strict=True))
    assert model.summary().unknown_share == pytest.approx(np.mean([d.label == "unknown" for d in decisions]))


def test_a_late_decision_is_that_of_the_last_batch(unguarded, monkeypatch):
    steps, chains, released = Steps(monkeypatch), 3, []
    model = recognizer(unguarded, chains=chains, decision_delay=40)
    for i, (x, _) in enumerate(stream_part(N)):
        model.learn_one(x, key=i)
        released += [(d, model.value.stream.odds, len(steps.results) // chains) for d in model.drain()]
    assert len(released) > 100
    again = 0
    for decision, odds, batches in released:
        latest = None
        for batch in steps.batches(chains)[:batches]:
            begin = int(batch[0].window_seq[-1]) + 1 if len(batch[0].window_seq) else 0
            for result in batch:
                np.testing.assert_array_equal(result.window_seq, batch[0].window_seq)
            inside = np.flatnonzero(batch[0].window_seq == decision.seq)
            if len(inside):
                latest = np.mean([result.window_probabilities[inside[0]] for result in batch], axis=0)
                again += 1
            elif begin <= decision.seq < begin + 16:
                latest = np.mean([result.probabilities[decision.seq - begin] for result in batch], axis=0)
        expected = shift_odds(odds, latest[None])[0]
        np.testing.assert_allclose(list(decision.probabilities.values()), expected, atol=1e-12)
    assert again > 2 * len(released)


def test_the_subclass_of_a_late_decision_is_where_the_instance_sits_then(trained):
    model = stream(recognizer(trained, decision_delay=40))
    waiting, recent = model.value.stream.waiting, model.value.stream.recent
    assert len(waiting.decisions) == 40
    at = [d.seq - recent.seq for d in waiting.decisions]
    np.testing.assert_array_equal(waiting.subclass, recent.subclass[0, at])
    assert (waiting.subclass >= 0).any()


def test_with_a_batch_so_many_are_reseated_that_there_are_256(trained):
    for arguments, expected in (
        ({"batch_size": 60, "decision_delay": 1}, [60, 120, 180, 196, 196]),
        ({"batch_size": 300}, [0]),
        ({"batch_size": 100, "decision_delay": 190}, [100, 190, 190]),
    ):
        model, found = OpenSetRecognizer.from_trained(trained, seed=5, **arguments), []
        for x, _ in stream_part(300):
            model.learn_one(x)
            state = model.value.stream.state
            if state.batches > len(found):
                found.append(len(state.window_seq))
                assert state.window_seq.tolist() == list(range(state.seen - found[-1], state.seen))
        assert found == expected, arguments


def test_labels_that_open_a_class_while_decisions_wait(trained):
    model = stream(recognizer(trained, decision_delay=48), 96)
    early = list(model.drain())
    truth = [y for _, y in stream_part(N)]
    for seq in [seq for seq in range(60, 96) if truth[seq] == "new"][:8]:
        model.learn_label(f"k{seq}", "new")
    model.learn_label("k95", "other")
    stream(model, N, 96)
    check_stream(model.value.stream)
    late = ended(model)
    assert [d.seq for d in early + late] == list(range(N))
    assert all(list(d.probabilities) == ["left", "right", "unknown"] for d in early)
    assert all(list(d.probabilities) == ["left", "right", "new", "other", "unknown"] for d in late)
    assert all(sum(d.probabilities.values()) == pytest.approx(1, abs=1e-9) for d in late)
    known_ids = {key for group in model.summary().known for key, _ in group.subclasses}
    held = {y: [d.probabilities["new"] for d in late if d.seq < 96 and truth[d.seq] == y] for y in (*KNOWN, "new")}
    assert max(held["new"]) > 10.0 * max(held["left"] + held["right"]), held
    assert all(d.subclass_id is None or d.subclass_id in known_ids for d in late if d.label != "unknown")
    assert all(d.first_label in ("left", "right", "unknown") for d in late if d.seq < 96)
    assert sum(model.value.stream.decided) == N


def test_a_class_that_is_opened_just_before_the_flush(trained):
    model = stream(recognizer(trained, decision_delay=48), 96)
    list(model.drain())
    model.learn_label("k95", "other")
    released = ended(model)
    assert [d.seq for d in released] == list(range(48, 96))
    assert all(d.probabilities["other"] == 0.0 for d in released)  # nothing came that would have re-seated them
    check_stream(model.value.stream)


# Least probability


def test_labels_below_the_least_probability_are_unknown_and_nothing_else_changes(trained):
    plain, strict = (stream(recognizer(trained, min_probability=least)) for least in (0.0, LEAST))
    plain.flush()
    strict.flush()
    assert bits(plain.value.stream.chains) == bits(strict.value.stream.chains)
    assert list(plain.drain_events()) == list(strict.drain_events())
    changed = 0
    for d, same in zip(strict.drain(), plain.drain(), strict=True):
        assert d.probabilities == same.probabilities
        kept = same.label == "unknown" or same.probability >= LEAST
        assert d.label == (same.label if kept else "unknown")
        assert d.probability == d.probabilities[d.label]
        assert d.label == "unknown" or d.subclass_id is not None
        changed += not kept
    assert changed
    rows = [x for x, _ in stream_part(60, seed=1)]
    both = [plain.predict_proba_one(x) for x in rows]
    least = float(np.median([max([*p.values()][:-1]) for p in both if p["unknown"] < 0.5]))
    strict.set_min_probability(least)
    assert [strict.predict_proba_one(x) for x in rows] == both
    best = [max(p, key=p.__getitem__) for p in both]
    found = [strict.predict_one(x) for x in rows]
    assert found == [label if p[label] >= least else "unknown" for label, p in zip(best, both, strict=True)]
    assert found != best
    assert len(set(found)) > 1


def test_the_least_probability_can_be_set_on_a_trained_recognizer(trained, tmp_path):
    model, twin = (stream(recognizer(trained, decision_delay=30)) for _ in range(2))
    assert len(list(model.drain())) == len(list(twin.drain()))
    model.set_min_probability(1.0)
    decisions, others = ended(model), ended(twin)
    assert len(decisions) >= 30
    assert {d.label for d in decisions} == {"unknown"} < {d.label for d in others}
    assert [d.probabilities for d in decisions] == [d.probabilities for d in others]
    assert [d.first_label for d in decisions][:20] == [d.first_label for d in others][:20]
    model.save(tmp_path / "model.osr")
    loaded = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert loaded.min_probability == loaded.value.parameters.min_probability == 1.0
    assert model.clone().min_probability == 1.0
    with pytest.raises(InvalidParameter, match="min_probability is -1"):
        model.set_min_probability(-1)
    assert model.min_probability == model.value.parameters.min_probability == 1.0
