"""``python -m tests.model.figures`` prints the figures that ``docs/inference.md`` quotes (two minutes)."""

from __future__ import annotations

import sys

import numpy as np

from stream_osr.model import sampler as library
from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA
from stream_osr.model.sampler import Settings
from tests.model import chains
from tests.model.immediate import immediate
from tests.model.problems import stream_problem
from tests.model.test_exact_posterior import STREAM, TRAINING, training_problem
from tests.model.test_stream import far_batch, make_world
from tests.oracles import concentration, crf, stream

out = sys.stdout.write


def posterior() -> None:
    out("exact posterior: seatings, largest |z| of a frequency, total variation, z of alpha0 (and of gamma)\n")
    for case in TRAINING:
        groups, d, kind, ownership = case.values
        exact, state = training_problem(groups, d, kind, ownership, ALPHA, GAMMA)
        record = chains.training_chain(np.random.default_rng(1), 80_000, state)
        numbers = chains.numbered(record, exact.seatings, groups)
        scores, distance = chains.indicator_scores(numbers, exact.probabilities)
        alpha, gamma = chains.z_score(record.alpha, exact.mean_alpha), chains.z_score(record.gamma, exact.mean_gamma)
        out(f"  training, {case.id:<44}{len(exact.seatings):>5}{np.abs(scores).max():>6.1f}{distance:>8.4f}")
        out(f"{alpha:>6.1f}{gamma:>6.1f}\n")
    for case in STREAM:
        rows, first, proposals = np.array(case.values[0]), case.values[1], case.values[2]
        n, d = rows.shape
        problem = stream_problem(rows, crf.Seating((0,) * n, ()), nu=d + 2.0)
        exact = stream.target(problem.oracle, rows, problem.state.log_frozen)
        record = problem.run(np.random.default_rng(4), 100_000, first, proposals)
        numbers = chains.numbered(record, exact.seatings, [0] * n, 2, 3)
        scores, distance = chains.indicator_scores(numbers, exact.probabilities)
        alpha = chains.z_score(record.alpha, exact.mean_alpha)
        out(f"  stream, {case.id:<46}{len(exact.seatings):>5}{np.abs(scores).max():>6.1f}{distance:>8.4f}")
        out(f"{alpha:>6.1f}\n")


def faded_tables() -> None:
    weights = 0.5 ** np.arange(0, 4.3, 0.1)
    seats = float(weights.sum())
    opened = concentration.Faded(ALPHA, seats, seats).moment(1)
    whole = concentration.mean(ALPHA, float(len(weights)), [seats])
    out(f"{len(weights)} tables of one guest, faded from 1 to {weights[-1]:.2f}, {seats:.1f} seats in all: mean of ")
    out(f"alpha0 {opened:.1f} from the openings, {whole:.1f} from the number of tables\n")


def ageing() -> None:
    world = make_world()
    novel = np.array([[0.0, 4.0]])
    out("odds of `unknown` for one row, after so many instances of the known classes\n")
    for half_life in (200.0, np.inf):
        state = library.open_stream(world.known, world.frozen)
        out(f"  half-life {half_life:>5}:")
        for b in range(1, 61):
            state = far_batch(world, state, Settings(sweeps=1, window=0, half_life=half_life), b, 200)
            if b in (1, 5, 15, 60):
                p = immediate(world.known, world.frozen, state, novel)[0, 2]
                out(f"  {200 * b} {p / (1 - p):.2f}")
        out("\n")


if __name__ == "__main__":
    posterior()
    faded_tables()
    ageing()
