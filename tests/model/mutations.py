"""Break the library on purpose, one change at a time, and see which tests notice.

``python -m tests.model.mutations`` runs tests on a copy of the sources for every mutation below and prints the table
of ``benchmarks/results/mutations.md`` (a minute for each change in ``model``: what depends on it is compiled anew;
run the tests once before). Names of mutations as arguments select some of them; a run ends after three failures. A
mutation whose place in the sources has changed is reported as such.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = ["stream_osr", "connectors", "benchmarks", "tests", "pyproject.toml"]
STATISTICAL = ("exact_posterior", "joint_distribution")
JUDGES = {
    "model/gaussian.py": ("gaussian", "dishes", "known"),
    "model/student_t.py": ("categories", "known", "broad"),
    "model/marginal.py": ("marginal", "categories_together"),
    "model/unassigned.py": ("categories_together", "strangers"),
    "model/responsibilities.py": ("test_kinds", "categories_together"),
    "model/missing.py": ("completing", "categories_together"),
    "model/transfer.py": ("test_kinds",),
    "model/whitening.py": ("categories", "flags", "space", "scatter"),
    "model/binary_features.py": ("flags",),
    "model/moves/hyperparameters.py": (
        "base_measure",
        "categories",
        "truths",
        "concentration",
        "exact_posterior",
        "joint_distribution",
    ),
    "discovery/events.py": ("test_kinds",),
    "discovery/explain.py": ("test_kinds",),
    "discovery/reconcile.py": ("discovery/test_reconcile", "categories_together"),
    "model/dishes.py": ("gaussian", "dishes", "known", "categories"),
    "model/categories.py": ("gaussian", "dishes", "categories", "categories_together"),
    "model/franchise.py": ("franchise", "seating", "exact_posterior", "stream", "books"),
    "model/moves/seating.py": ("seating", "likelihood", "stream", "exact_posterior", "joint_distribution"),
    "model/moves/likelihood.py": ("likelihood", "stream"),
    "model/moves/sweeps.py": ("stream", "exact_posterior", "joint_distribution"),
    "model/moves/splitting.py": ("splitting", "exact_posterior", "joint_distribution"),
    "model/known.py": ("known", "training", "categories_together", "broad", "truths"),
    "model/step.py": ("stream", "truths"),
    "model/edit.py": ("books",),
    "model/training.py": ("training", "categories_together", "base_measure", "truths"),
    "trust/balance.py": ("test_balance", "test_guard", "test_trust"),
    "stream/reference_check.py": ("test_guard", "test_trust"),
    "stream/chain.py": ("test_guard", "test_trust"),
    "trust/references.py": ("test_references", "test_order", "test_trust"),
    "trained.py": ("test_references", "test_trust"),
    "model/dependence.py": ("dependence", "test_order"),
    "stream/arrival_order.py": ("test_order",),
}
"""The test modules that are asked about a change in each source."""
ENOUGH = 3
"""So many failures end a run."""


class Mutation(NamedTuple):
    """In ``file`` (in ``stream_osr``) ``old`` becomes ``new``."""

    name: str
    file: str
    old: str
    new: str


TABLE = {
    "model/gaussian.py": {
        "log-determinant left out": ("return constant - 0.5 * log_det - 0.5 *", "return constant - 0.5 *"),
        "degrees of freedom one too few": ("log_det - 0.5 * (prior.nu + n + 1.0)", "log_det - 0.5 * (prior.nu + n)"),
        "stale inverse after a removal": ("shift(inverse, v, 1.0 / left)", ""),
    },
    "model/student_t.py": {
        "terms without the values of their subclass": ("-= weight * student_terms.values[m, places[c, i]]", "-= 0.0"),
        "new subclass whatever its values": ("/ prior.beta, values=base)]", "/ prior.beta, values=0.0 * base)]"),
        "terms of a sum without their largest": ("out[s, i] += total[i]", "out[s, i] = total[i]"),
    },
    "model/marginal.py": {
        "whole subclass by its numbers alone": (
            "return total + categories.log_marginal(counts, prior) if prior.first.shape[0] > 0 else total",
            "return total",
        ),
        "two subclasses together with the values of one": ("merged, values + counts[k],", "merged, values,"),
        "instances poured without their values": ("dishes.counts[k] += sign * poured.counts[0]", ""),
        "subclass parted by its numbers alone": (
            "+ categories.log_marginal(dishes.counts[k], prior) if prior.first.shape[0] > 0 else total",
            "",
        ),
    },
    "model/unassigned.py": {
        "noise without values": ("together -= categories.log_apart(dishes.counts[k], prior)", ""),
        "strangers against noise without values": (
            "of_values += categories.log_predictive(nobody, block[i], prior)",
            "",
        ),
    },
    "model/responsibilities.py": {
        "immediate prediction by numbers alone": ("value[m] += view.values[m, places[c]]", "value[m] += 0.0"),
        "references asked by numbers alone": ("value[i, k] += logs[k, places[c, i]]", "value[i, k] += 0.0"),
    },
    "model/missing.py": {
        "missing numbers drawn whatever the categories": (
            "return np.asarray(out + view.values[:, places].sum(axis=1) if len(places) else out)",
            "return np.asarray(out)",
        )
    },
    "model/transfer.py": {
        "values under their old numbers in another model": (
            "np.add.at(own, way.places[way.places >= 0], its[way.places >= 0])",
            "own[: len(its)] = its[: len(own)]",
        )
    },
    "model/whitening.py": {
        "value that training had not taken for one that it had": (
            "min(int(code), places[c] - 2)",
            "min(int(code), places[c] - 3)",
        ),
        "flags whitened as numbers as well": ("np.flatnonzero(places == 0),", "np.flatnonzero(places <= 0),"),
        "pooled covariance over n in place of n - J": ("* scatter / max(freedom, 1)", "* scatter / n"),
        "far instances weigh like all others": ("scaled = np.sqrt(w) * centred[own]", "scaled = centred[own]"),
    },
    "model/binary_features.py": {
        "flag of which it is not known which value it has taken for the last that fits": (
            "return place if known and fitting < 2 else 0",
            "return place if known else 0",
        ),
        "flag that is there twice counted twice": (
            "alike.setdefault(state.tobytes(), []).append(at)",
            "alike.setdefault(state.tobytes() + bytes([at]), []).append(at)",
        ),
    },
    "model/moves/hyperparameters.py": {
        "concentration from missing values as well": ("there = place > 0", "there = place >= 0"),
        "alpha0 of a fading restaurant from its number of tables": ("+= franchise.table_founder[t]", "+= 1.0"),
        "alpha0 from one table too many": ("tables, new_tables = 0.0, 0.0", "tables, new_tables = 1.0, 0.0"),
        "alpha0 from all groups as one": ("sizes[franchise.table_group[t]] +=", "sizes[0] +="),
        "gamma from dishes among dishes": ("sizes = np.full(1, franchise.total[0])", "sizes = np.full(1, dishes)"),
        "auxiliary variable s never 1": ("* (sizes[j] + value) < sizes[j]:", "* (sizes[j] + value) < 0.0:"),
        "base measure with a prior that is not flat": (
            "weights = np.exp(evidence - evidence.max()).ravel()",
            "weights = (np.exp(evidence - evidence.max()) * np.sqrt(grid.psi[:, :, None])).ravel()",
        ),
        "evidence with an instance too few in its exponent": ("-= 0.5 * (nu + n)[:,", "-= 0.5 * (nu + n - 1)[:,"),
        "evidence of beta by one feature of all": ("total += 0.5 * d * np.log(beta", "total += 0.5 * np.log(beta"),
        "concentrations of categories with a prior that is not flat": (
            "        weights = np.exp(evidence - evidence.max())",
            "        weights = np.exp(evidence - evidence.max()) * np.sqrt(CONCENTRATION)",
        ),
    },
    "discovery/events.py": {
        "share of the usual value told of the own one": ("{its['share']:.0%}", "{its['usual_share']:.0%}")
    },
    "discovery/explain.py": {
        "values of the nearest subclass told as the own ones": ("p, q = own[:, 1:]", "q, p = own[:, 1:]")
    },
    "discovery/reconcile.py": {
        "same subclass in several recognizers without its values": (
            "counts = sum((one.counts for one in own), np.zeros((1, len(prior.pseudo))))",
            "counts = np.zeros((1, len(prior.pseudo)))",
        )
    },
    "model/dishes.py": {
        "values of who leaves stay in the counts": ("categories.shift(dishes.counts[k], x, -1.0, prior)", ""),
        "constant for one instance less not refreshed": ("dishes.constant[k, 1] = dishes.constant[k, 0]", ""),
        "inversion scheduled far too late": ("REFRESH_EVERY = 512", "REFRESH_EVERY = 200_000"),
        "emptied subclass not reset": ("clear(dishes, k, prior)\n        return", "pass"),
    },
    "model/categories.py": {
        "value counted, its column not": ("counts[prior.first[c]] += sign", ""),
        "missing value counted like any other": ("if place != prior.first[c]:\n           ", "if True:\n           "),
        "own value left in the counts": (
            "value, whole = counts[place] - 1.0 + prior.pseudo[place], counts[first] - 1.0 + prior.pseudo[first]",
            "value, whole = counts[place] + prior.pseudo[place], counts[first] + prior.pseudo[first]",
        ),
        "values of a block each by itself": ("block[i], prior)\n        shift(counts, block[i], 1.0,", "block[i],"),
        "classes weigh in the base measure by their size": (
            "(values / values.sum(axis=1, keepdims=True)).mean(axis=0)",
            "values.sum(axis=0) / values.sum()",
        ),
        "every value as frequent as any other in the base measure": (
            "(values / values.sum(axis=1, keepdims=True)).mean(axis=0)",
            "np.full(count - 1, 1.0 / (count - 1))",
        ),
        "value that training had not impossible": (
            "values = values[:, 1:] + 1.0 / (count - 1)",
            "values = np.maximum(values[:, 1:], 1e-300)",
        ),
    },
    "model/franchise.py": {
        "menu total not kept": ("+= menu_weight(franchise, dish) -", "+= 0.0 *"),
        "settled seats do not fade": ("franchise.table_residual[t] *= share", ""),
        "books that forget what is held": ("weight = np.maximum(menu, old.held)", "weight = menu.copy()"),
        "books that count closed tables": (
            "tables = np.flatnonzero(old.table_dish != CLOSED)",
            "tables = np.arange(len(old.table_dish))",
        ),
        "books without the trained tables": ("lengthened(trained, len(old.held), 0.0)", "np.zeros(len(old.held))"),
        "books that count settled seats alone": ("+= old.table_mass[t]", "+= old.table_residual[t]"),
        "guests of the window keep the numbers of closed tables": ("table_number[window.table])", "window.table)"),
    },
    "model/moves/seating.py": {
        "dish re-dished by its numbers alone": (
            "weights[k] += categories.log_block_predictive(dishes.counts[k], block, False, prior)",
            "weights[k] += 0.0",
        ),
        "menu count off by one": (
            "weights[k] *= seated[k] + share * max(menu[k], held[k])",
            "weights[k] *= seated[k] + share * (menu[k] + 1.0)",
        ),
        "one table's seats in place of the dish's": (
            "weights[k] *= seated[k] + share * max(menu[k], held[k])",
            "mass = 0.0\n        for t in range(franchise.table_dish.shape[0]):\n"
            "            if franchise.table_dish[t] == k and franchise.table_group[t] == group:\n"
            "                mass = franchise.table_mass[t]\n"
            "        weights[k] *= mass + share * max(menu[k], held[k])",
        ),
        "own instance not removed": (
            "weights[k] = statistics.log_predictive_without(dishes, k - frozen, x, prior)",
            "weights[k] = statistics.log_predictive(dishes, k - frozen, x, prior)",
        ),
        "own table not left before weighing": (
            "if likelihood is None:\n        total = weigh_dishes(i, own, state)\n    else:\n"
            "        total = weigh_remembered(i, own, state, likelihood)",
            "if old != CLOSED:\n        franchise.seated[group, old] += guests.weight[i]\n"
            "    if likelihood is None:\n        total = weigh_dishes(i, own, state)\n    else:\n"
            "        total = weigh_remembered(i, own, state, likelihood)\n    if old != CLOSED:\n"
            "        franchise.seated[group, old] -= guests.weight[i]",
        ),
        "guest never opens a table for a dish that has one": (
            "u = rng.random() * (franchise.seated[group, dish] + share * restaurant.menu_weight(franchise, dish))",
            "u = rng.random() * (franchise.seated[group, dish] + 0.0 * share)",
        ),
        "ownership not checked in a visit": (
            "if not served or (owner[k] != restaurant.ANYONE and owner[k] != group):",
            "if not served:",
        ),
        "ownership not checked in re-dishing": (
            "if tables == 0.0 or (owner[k] != restaurant.ANYONE and owner[k] != group):",
            "if tables == 0.0:",
        ),
        "re-dishing without the menu": (
            "np.log(tables) + statistics.log_block_predictive(dishes, k - frozen, block, k == old, prior)",
            "statistics.log_block_predictive(dishes, k - frozen, block, k == old, prior)",
        ),
        "re-dished table predicted with itself inside": ("k - frozen, block, k == old,", "k - frozen, block, False,"),
        "no re-dishing": ("< 2 or members[size - 1] < first or franchise.table_residual[t] != 0.0:", "< 1_000_000:"),
        "tables with settled seats re-dished": ("1] < first or franchise.table_residual[t] != 0.0:", "1] < first:"),
        "held dish off the menu when its tables have gone": ("share * max(menu[k], held[k]))", "share * menu[k])"),
        "own instance not removed from what is remembered": (
            "weights[own] = np.exp(log_own - likelihood.reference[i]) * (seated[own] + share * tables)",
            "weights[own] = density[own] * (seated[own] + share * tables)",
        ),
        "dish left out of a re-dishing that is not hopeless": ("floor = best - HOPELESS", "floor = best + HOPELESS"),
        "statistics of a subclass cleared with its slot kept": (
            "else:\n            statistics.clear(dishes, own - frozen, prior)",
            "else:\n            memory.remove(dishes, own - frozen, i, guests.rows, prior, likelihood)",
        ),
    },
    "model/moves/likelihood.py": {
        "categories left out of what is remembered": ("logs[i] += likelihood.values[k, i]", "logs[i] += 0.0"),
        "categories not weighed anew when a guest comes": (
            "shift_forms(likelihood.form[k], likelihood.columns, v, factor, likelihood.side)\n"
            "        if likelihood.values.shape[0] > 0:\n            weigh_values(likelihood, k, dishes, prior)",
            "shift_forms(likelihood.form[k], likelihood.columns, v, factor, likelihood.side)",
        ),
        "forms not corrected when a guest leaves": (
            "_follow(likelihood, k, dishes, v, 1.0 / left, prior)",
            "tell(likelihood, k, dishes, prior)",
        ),
        "forms of an emptied slot not those of the prior": (
            "if dishes.size[k] == 0:\n            restart(likelihood, k)",
            "",
        ),
        "forms not computed afresh with the inverse": ("if left < gaussian.LOSES_DIGITS:", "if left < -1.0:"),
    },
    "model/moves/sweeps.py": {
        "alpha0 not drawn in the stream": ("resample_alpha(rng, state.franchise, STREAM_ALPHA, fading)", ""),
        "gamma not drawn in training": ("resample_gamma(rng, franchise, GAMMA)", ""),
        "averaged probabilities divided by the wrong count": ("= 1.0 / (sweeps - counted_from", "= 1.0 / (sweeps"),
    },
    "model/moves/splitting.py": {
        "split without the odds of the way back": ("return seats + log_block + log_back", "return seats + log_block"),
        "split without the order of seats": ("seats += math.log(mass)", "seats += 0.0"),
    },
    "model/known.py": {
        "labelled instance in the counts of the trained model": (
            "add(dishes, k, row, prior)\n    seated[j, k] += 1.0",
            "add(dishes, k, row, prior)\n    known.dishes.counts[:count] = dishes.counts[:count]\n"
            "    seated[j, k] += 1.0",
        ),
        "class as a whole with the values of who is left out": (
            "categories.log_without_each(counts, rows, prior)",
            "categories.log_of_each(categories.log_table(counts[None], prior)[0], rows, len(prior.first))",
        ),
        "class density without the weights of its subclasses": (
            "total += np.exp(log_subclass[i, k] + log_weight[j, k] - peak)",
            "total += np.exp(log_subclass[i, k] - peak) * float(log_weight[j, k] > -np.inf)",
        ),
        "instance left out of the density but not of the weight": ("k] - (1.0 if k == own else 0.0)", "k]"),
        "instance not taken out of the scatter of its class": (
            "ratio = np.maximum(1.0 - counts * away * form, np.finfo(float).eps)",
            "ratio = np.ones(n)",
        ),
        "broad term without the seats of dropped subclasses": (
            "missing = (size - held)[group] - ~kept + alpha  # of the other instances",
            "missing = np.full(len(rows), alpha)",
        ),
        "broad terms as heavy in the tails as a new subclass": ("+ FREEDOM_ABOVE:", "+ FREEDOM_ABOVE - 4.0:"),
        "broad term without its weight": (
            "student_terms.append(student_t.student_t(shape, missing[j]))",
            "student_terms.append(student_t.student_t(shape, 0.0))",
        ),
        "class density without its broad term": (
            "if shape is not None:\n            student_terms",
            "if False:\n            student_terms",
        ),
    },
    "model/step.py": {
        "randomness not wound back when slots run out": ("rng.bit_generator.state = randomness", ""),
        "alpha0 by openings although seats do not fade": ("np.isfinite(settings.half_life)", "True"),
    },
    "model/edit.py": {
        "merged subclass that forgets that it was held": (
            "tables.held[to], tables.held[at] = max(tables.held[to], tables.held[at]), 0.0",
            "tables.held[at] = 0.0",
        ),
        "merged subclass without the tables of the other": (
            "tables.table_dish[tables.table_dish == at] = to",
            "tables.table_dish[tables.table_dish == at] = CLOSED",
        ),
        "part of a subclass without its share of the settled seats": ("* serving * share", "* serving * 0.0"),
        "subclass dropped that is held all the same": ("tables.held[dishes] = 0.0", ""),
        "instance withdrawn, its settled seat not": ("tables.table_residual[table] -= weight", ""),
        "gathered instances in the statistics of both": ("remove(own, int(k), row, prior)", "pass"),
        "instance put back as a guest without a seat at the table": ("tables.table_live[table] += 1", ""),
        "tables that keep the old number of their dish": (
            "table_dish=number[state.franchise.table_dish]",
            "table_dish=state.franchise.table_dish.copy()",
        ),
    },
    "model/training.py": {
        "concentrations not drawn": ("prior = draw_concentrations(rng, rows, dish, prior)", "pass"),
        "randomness not wound back when slots run out, training": ("rng.bit_generator.state = state", ""),
        "base measure drawn as if all instances shared a subclass": (
            "draw_prior(rng, rows[:, len(prior.first) :], dish, grid, prior)",
            "draw_prior(rng, rows[:, len(prior.first) :], 0 * dish, grid, prior)",
        ),
        "new subclasses weighed by the base measure before": (
            "            log_new = log_new_densities(seating.guests.rows, prior, location)\n        seating = sweep",
            "        seating = sweep",
        ),
        "subclasses stated under the base measure before": (
            "dishes = dishes_with(seating.guests.rows, dish, len(seating.dishes.size), prior)\n"
            "    return prior, seating._replace",
            "dishes = seating.dishes\n    return prior, seating._replace",
        ),
    },
    "trust/balance.py": {
        "no mass balance": (
            "here[c] = emerging[c] * scale * (share[c] if odds is None else with_odds(share[c], odds[i]))",
            "here[c] = 0.0",
        ),
        "the same reference counted again": ("= min(n_references[j, c], distinct[j]) ", "= n_references[j, c] "),
    },
    "stream/reference_check.py": {
        "owner not kept": ("part = owners_of(check.owner, ", "part = owners_of(np.full_like(check.owner, NOBODY), "),
        "owner not kept when subclasses come and go": (
            "owner[k] = check.owner[slot] if check.owner[slot] < n_classes else NOBODY",
            "owner[k] = NOBODY",
        ),
        "instances of the stream in their own subclass": ("result.subclass,", "np.full(n, -1),"),
        "openings of owned subclasses not forgotten": (
            "state=without_openings(state, check, n_classes),",
            "state=state,",
        ),
    },
    "stream/chain.py": {"books of a part not shared": ("counts.taken[:, cell] *= 0.5", "")},
    "trust/references.py": {
        "an instance left out without its fold": ("if member_rows.any():", "if False:"),
        "conformal rank without the instance itself": (
            "reached = np.append(reached, reached[-1] + weight.max())",
            "reached = np.concatenate([[0.0], reached, reached[-1:] + weight.max()])",
        ),
        "blocks replaced by random folds": ("p.seed) if order is None else _blocks(group, order)", "p.seed)"),
    },
    "trained.py": {
        "reference instances with their own density in it": (
            "draws_of = [with_ranks(known, group, found) for known",
            "from stream_osr.model.known import log_densities\n"
            "            everyone = trainings[0].seating.guests.rows\n"
            "            log_density = [log_densities(known, densities(known), everyone)[0] for known in draws_of]\n"
            "            draws_of = [with_ranks(known, group, found) for known",
        )
    },
    "model/dependence.py": {
        "rejected instances feed the prediction": (
            "if given < log_new[i] or log_density[i, own] < least[own]:",
            "if False:",
        ),
        "no stationarity bound": (
            "mean[j, a] *= step\n"
            "                variance[j, a] = step * step * variance[j, a] + process.slow[a] * (1.0 - step * step)",
            "variance[j, a] += process.slow[a] * (1.0 - step * step)",
        ),
        "dependence estimated from shuffled order": (
            'turn = np.argsort(order, kind="stable")\n    z, group',
            'order = np.random.default_rng(0).permutation(order)\n    turn = np.argsort(order, kind="stable")\n'
            "    z, group",
        ),
    },
    "stream/arrival_order.py": {
        "the collective step never yields": ("return self.process is not None or self.departed >= 0", "return False")
    },
}
"""Of each source: what stands in one place, and what becomes of it."""

MUTATIONS = [Mutation(name, file, *change) for file, own in TABLE.items() for name, change in own.items()]


def run(mutation: Mutation, root: Path) -> list[str]:
    """Names of the test functions that fail on a copy with the mutation."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder) / "copy"
        for name in COPIED:
            source = root / name
            if source.is_dir():
                # what is compiled and cannot reach the change as well
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("results"))
            else:
                shutil.copy(source, copy / name)
        path = copy / "stream_osr" / mutation.file
        text = path.read_text()
        if text.count(mutation.old) != 1:
            return [f"NOT APPLIED: found {text.count(mutation.old)} times in {mutation.file}"]
        path.write_text(text.replace(mutation.old, mutation.new))
        environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        judges = [judge(name) for name in JUDGES[mutation.file]]
        command = [sys.executable, "-m", "pytest", *judges, "-q", f"--maxfail={ENOUGH}", "-p", "no:cacheprovider"]
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=3600
        )
        failed = re.findall(r"^(?:FAILED|ERROR) tests/(?:\w+/)?(\w+)\.py::(\w+)", done.stdout, re.MULTILINE)
        if not failed and done.returncode:
            return [f"pytest ended with {done.returncode}: {done.stdout[-300:]}"]
        return sorted({f"{module}::{test}" for module, test in failed})


def judge(name: str) -> str:
    return f"tests/{name}.py" if "test_" in name else f"tests/model/test_{name}.py"


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutations to run (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--root", type=Path, default=ROOT, help="sources to mutate")
    options = parser.parse_args(arguments)
    chosen = [m for m in MUTATIONS if not options.names or m.name in options.names]
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutation, caught in zip(chosen, pool.map(lambda m: run(m, options.root), chosen), strict=True):
            survivors += not caught
            sys.stdout.write(f"| {mutation.name} | {mutation.file} | {', '.join(caught) or 'SURVIVED'} |\n")
            sys.stdout.flush()
    return survivors


if __name__ == "__main__":
    sys.exit(main())
