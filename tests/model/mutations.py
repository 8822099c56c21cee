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
    "model/moves/hyperparameters.py": ("base_measure", "categories", "truths", "concentration", *STATISTICAL),
    "discovery/events.py": ("test_kinds",),
    "discovery/explain.py": ("test_kinds",),
    "discovery/reconcile.py": ("discovery/test_reconcile", "categories_together"),
    "model/dishes.py": ("gaussian", "dishes", "known", "categories"),
    "model/categories.py": ("categories", "categories_together"),
    "model/franchise.py": ("franchise", "seating", "exact_posterior", "stream", "books"),
    "model/moves/seating.py": ("seating", "likelihood", "stream", *STATISTICAL),
    "model/moves/likelihood.py": ("likelihood", "stream"),
    "model/moves/sweeps.py": ("stream", *STATISTICAL),
    "model/moves/splitting.py": ("splitting", *STATISTICAL),
    "model/known.py": ("known", "training", "categories_together", "broad", "truths"),
    "model/step.py": ("stream", "truths"),
    "model/edit.py": ("books",),
    "model/training.py": ("training", "categories_together", "base_measure", "truths"),
    "trust/balance.py": ("test_balance", "test_guard", "test_trust"),
    "trust/division.py": ("test_guard", "test_trust"),
    "stream/reference_check.py": ("test_guard", "test_trust"),
    "stream/chain.py": ("test_guard", "test_trust"),
    "trust/references.py": ("test_references", "test_order", "test_trust"),
    "trained.py": ("test_references", "test_trust"),
    "model/dependence.py": ("dependence", "test_order"),
    "model/ordered.py": ("ordered", "test_order"),
    "stream/arrival_order.py": ("test_order",),
    "trust/recall.py": ("test_recall", "test_trust"),
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


WEIGHING = (
    "    if likelihood is None:\n"
    "        total = weigh_dishes(i, own, sitting)\n"
    "    else:\n"
    "        total = weigh_remembered(i, own, sitting, likelihood)\n"
)
"""How a visit weighs the dishes."""

MUTATIONS = [
    # categories of one subclass
    Mutation(
        "value counted, its column not",
        "model/categories.py",
        "            counts[prior.first[c]] += sign\n",
        "",
    ),
    Mutation(
        "missing value counted like any other",
        "model/categories.py",
        "        if place != prior.first[c]:\n            counts[place] += sign\n",
        "        if True:\n            counts[place] += sign\n",
    ),
    Mutation(
        "own value left in the counts",
        "model/categories.py",
        "value, whole = counts[place] - 1.0 + prior.pseudo[place], counts[first] - 1.0 + prior.pseudo[first]",
        "value, whole = counts[place] + prior.pseudo[place], counts[first] + prior.pseudo[first]",
    ),
    Mutation(
        "values of a block each by itself",
        "model/categories.py",
        "        total += log_predictive(counts, block[i], prior)\n        shift(counts, block[i], 1.0, prior)\n",
        "        total += log_predictive(counts, block[i], prior)\n",
    ),
    Mutation(
        "classes weigh in the base measure by their size",
        "model/categories.py",
        "(values / values.sum(axis=1, keepdims=True)).mean(axis=0)",
        "values.sum(axis=0) / values.sum()",
    ),
    Mutation(
        "categories left out of what is remembered",
        "model/moves/likelihood.py",
        "            logs[i] += likelihood.values[k, i]\n",
        "            logs[i] += 0.0\n",
    ),
    Mutation(
        "categories not weighed anew when a guest comes",
        "model/moves/likelihood.py",
        "        shift_forms(likelihood.form[k], likelihood.columns, v, factor, likelihood.side)\n"
        "        if likelihood.values.shape[0] > 0:\n"
        "            weigh_values(likelihood, k, dishes, prior)\n",
        "        shift_forms(likelihood.form[k], likelihood.columns, v, factor, likelihood.side)\n",
    ),
    Mutation(
        "dish re-dished by its numbers alone",
        "model/moves/seating.py",
        "            weights[k] += categories.log_block_predictive(dishes.counts[k], block, False, prior)\n",
        "            weights[k] += 0.0\n",
    ),
    Mutation(
        "terms without the values of their subclass",
        "model/student_t.py",
        "                value[m, i] -= weight * terms.values[m, places[c, i]]\n",
        "                value[m, i] -= 0.0\n",
    ),
    Mutation(
        "every value as frequent as any other in the base measure",
        "model/categories.py",
        "(values / values.sum(axis=1, keepdims=True)).mean(axis=0)",
        "np.full(count - 1, 1.0 / (count - 1))",
    ),
    Mutation(
        "value that training had not impossible",
        "model/categories.py",
        "        values = values[:, 1:] + 1.0 / (count - 1)\n",
        "        values = np.maximum(values[:, 1:], 1e-300)\n",
    ),
    Mutation(
        "concentrations not drawn",
        "model/training.py",
        "        prior = draw_concentrations(rng, rows, dish, prior)\n",
        "        pass\n",
    ),
    Mutation(
        "concentration from missing values as well",
        "model/moves/hyperparameters.py",
        "    there = place > 0\n",
        "    there = place >= 0\n",
    ),
    Mutation(
        "values of who leaves stay in the counts",
        "model/dishes.py",
        "    categories.shift(dishes.counts[k], x, -1.0, prior)\n",
        "",
    ),
    Mutation(
        "labelled instance in the counts of the trained model",
        "model/known.py",
        "    add(dishes, k, row, prior)\n    seated[j, k] += 1.0\n",
        "    add(dishes, k, row, prior)\n    known.dishes.counts[:count] = dishes.counts[:count]\n"
        "    seated[j, k] += 1.0\n",
    ),
    Mutation(
        "new subclass whatever its values",
        "model/student_t.py",
        "        return [Term(form, head, power, 1.0 / prior.beta, values=base)]\n",
        "        return [Term(form, head, power, 1.0 / prior.beta, values=0.0 * base)]\n",
    ),
    Mutation(
        "whole subclass by its numbers alone",
        "model/marginal.py",
        "    return total + categories.log_marginal(counts, prior) if prior.first.shape[0] > 0 else total\n",
        "    return total\n",
    ),
    Mutation(
        "two subclasses together with the values of one",
        "model/marginal.py",
        "_log_whole(both_of, joined, values + counts[k], prior, location)",
        "_log_whole(both_of, joined, values, prior, location)",
    ),
    Mutation(
        "instances poured without their values",
        "model/marginal.py",
        "    dishes.counts[k] += sign * poured.counts[0]\n",
        "",
    ),
    Mutation(
        "subclass parted by its numbers alone",
        "model/marginal.py",
        " + categories.log_marginal(dishes.counts[k], prior) if prior.first.shape[0] > 0 else total\n",
        "\n",
    ),
    Mutation(
        "class as a whole with the values of who is left out",
        "model/known.py",
        "categories.log_without_each(counts, rows, prior)",
        "categories.log_of_each(categories.log_table(counts[None], prior)[0], rows, len(prior.first))",
    ),
    Mutation(
        "noise without values",
        "model/unassigned.py",
        "        together -= categories.log_apart(dishes.counts[k], prior)\n",
        "",
    ),
    Mutation(
        "strangers against noise without values",
        "model/unassigned.py",
        "        of_values += categories.log_predictive(nobody, block[i], prior)\n",
        "",
    ),
    Mutation(
        "immediate prediction by numbers alone",
        "model/responsibilities.py",
        "            value[m] += view.values[m, places[c]]\n",
        "            value[m] += 0.0\n",
    ),
    Mutation(
        "missing numbers drawn whatever the categories",
        "model/missing.py",
        "    return np.asarray(out + view.values[:, places].sum(axis=1) if len(places) else out)\n",
        "    return np.asarray(out)\n",
    ),
    Mutation(
        "references asked by numbers alone",
        "model/responsibilities.py",
        "                    value[i, k] += logs[k, places[c, i]]\n",
        "                    value[i, k] += 0.0\n",
    ),
    Mutation(
        "values under their old numbers in another model",
        "model/transfer.py",
        "        np.add.at(own, way.places[way.places >= 0], its[way.places >= 0])\n",
        "        own[: len(its)] = its[: len(own)]\n",
    ),
    Mutation(
        "value that training had not taken for one that it had",
        "model/whitening.py",
        "min(int(code), places[c] - 2)",
        "min(int(code), places[c] - 3)",
    ),
    Mutation(
        "flags whitened as numbers as well",
        "model/whitening.py",
        "np.flatnonzero(places == 0), np.flatnonzero(places > 0)",
        "np.flatnonzero(places <= 0), np.flatnonzero(places > 0)",
    ),
    Mutation(
        "flag of which it is not known which value it has taken for the last that fits",
        "model/binary_features.py",
        "    return place if known and fitting < 2 else 0\n",
        "    return place if known else 0\n",
    ),
    Mutation(
        "flag that is there twice counted twice",
        "model/binary_features.py",
        "        alike.setdefault(state.tobytes(), []).append(at)\n",
        "        alike.setdefault(state.tobytes() + bytes([at]), []).append(at)\n",
    ),
    Mutation(
        "share of the usual value told of the own one",
        "discovery/events.py",
        "{its['share']:.0%}",
        "{its['usual_share']:.0%}",
    ),
    Mutation(
        "values of the nearest subclass told as the own ones",
        "discovery/explain.py",
        "        p, q = own[:, 1:]\n",
        "        q, p = own[:, 1:]\n",
    ),
    Mutation(
        "same subclass in several recognizers without its values",
        "discovery/reconcile.py",
        "            counts = sum((one.counts for one in own), np.zeros((1, len(prior.pseudo))))\n",
        "            counts = np.zeros((1, len(prior.pseudo)))\n",
    ),
    # one subclass
    Mutation(
        "log-determinant left out",
        "model/gaussian.py",
        "return constant - 0.5 * log_det - 0.5 * (prior.nu + n + 1.0) * math.log1p(h)",
        "return constant - 0.5 * (prior.nu + n + 1.0) * math.log1p(h)",
    ),
    Mutation(
        "degrees of freedom one too few",
        "model/gaussian.py",
        "return constant - 0.5 * log_det - 0.5 * (prior.nu + n + 1.0) * math.log1p(h)",
        "return constant - 0.5 * log_det - 0.5 * (prior.nu + n) * math.log1p(h)",
    ),
    Mutation(
        "stale inverse after a removal",
        "model/gaussian.py",
        "    shift(inverse, v, 1.0 / left)\n",
        "",
    ),
    Mutation(
        "constant for one instance less not refreshed",
        "model/dishes.py",
        "    dishes.constant[k, 1] = dishes.constant[k, 0]\n",
        "",
    ),
    Mutation(
        "inversion scheduled far too late",
        "model/dishes.py",
        "REFRESH_EVERY = 512",
        "REFRESH_EVERY = 200_000",
    ),
    Mutation(
        "emptied subclass not reset",
        "model/dishes.py",
        "        clear(dishes, k, prior)\n        return\n",
        "        pass\n",
    ),
    # one visit, one table
    Mutation(
        "menu count off by one",
        "model/moves/seating.py",
        "        weights[k] *= seated[k] + share * max(menu[k], held[k])\n",
        "        weights[k] *= seated[k] + share * (menu[k] + 1.0)\n",
    ),
    Mutation(
        "one table's seats in place of the dish's",
        "model/moves/seating.py",
        "        weights[k] *= seated[k] + share * max(menu[k], held[k])\n",
        "        mass = 0.0\n"
        "        for t in range(franchise.table_dish.shape[0]):\n"
        "            if franchise.table_dish[t] == k and franchise.table_group[t] == group:\n"
        "                mass = franchise.table_mass[t]\n"
        "        weights[k] *= mass + share * max(menu[k], held[k])\n",
    ),
    Mutation(
        "own instance not removed",
        "model/moves/seating.py",
        "            weights[k] = statistics.log_predictive_without(dishes, k - frozen, x, prior)\n",
        "            weights[k] = statistics.log_predictive(dishes, k - frozen, x, prior)\n",
    ),
    Mutation(
        "own table not left before weighing",
        "model/moves/seating.py",
        WEIGHING,
        "    if old != CLOSED:\n"
        "        franchise.seated[group, old] += guests.weight[i]\n" + WEIGHING + "    if old != CLOSED:\n"
        "        franchise.seated[group, old] -= guests.weight[i]\n",
    ),
    Mutation(
        "guest never opens a table for a dish that has one",
        "model/moves/seating.py",
        "    u = rng.random() * (franchise.seated[group, dish] + share * restaurant.menu_weight(franchise, dish))\n",
        "    u = rng.random() * (franchise.seated[group, dish] + 0.0 * share)\n",
    ),
    Mutation(
        "ownership not checked in a visit",
        "model/moves/seating.py",
        "        if not served or (owner[k] != restaurant.ANYONE and owner[k] != group):\n",
        "        if not served:\n",
    ),
    Mutation(
        "ownership not checked in re-dishing",
        "model/moves/seating.py",
        "        if tables == 0.0 or (owner[k] != restaurant.ANYONE and owner[k] != group):\n",
        "        if tables == 0.0:\n",
    ),
    Mutation(
        "re-dishing without the menu",
        "model/moves/seating.py",
        "np.log(tables) + statistics.log_block_predictive(dishes, k - frozen, block, k == old, prior)\n",
        "statistics.log_block_predictive(dishes, k - frozen, block, k == old, prior)\n",
    ),
    Mutation(
        "re-dished table predicted with itself inside",
        "model/moves/seating.py",
        "log_block_predictive(dishes, k - frozen, block, k == old, prior)",
        "log_block_predictive(dishes, k - frozen, block, False, prior)",
    ),
    Mutation(
        "no re-dishing",
        "model/moves/seating.py",
        "        if size < 2 or members[size - 1] < first or franchise.table_residual[t] != 0.0:\n",
        "        if size < 1_000_000:\n",
    ),
    Mutation(
        "tables with settled seats re-dished",
        "model/moves/seating.py",
        "        if size < 2 or members[size - 1] < first or franchise.table_residual[t] != 0.0:\n",
        "        if size < 2 or members[size - 1] < first:\n",
    ),
    Mutation(
        "held dish off the menu when its tables have gone",
        "model/moves/seating.py",
        "            weights[k] = density[k] * (seated[k] + share * max(menu[k], held[k]))\n",
        "            weights[k] = density[k] * (seated[k] + share * menu[k])\n",
    ),
    # what is remembered
    Mutation(
        "own instance not removed from what is remembered",
        "model/moves/seating.py",
        "                weights[own] = np.exp(log_own - likelihood.reference[i]) * (seated[own] + share * tables)\n",
        "                weights[own] = density[own] * (seated[own] + share * tables)\n",
    ),
    Mutation(
        "forms not corrected when a guest leaves",
        "model/moves/likelihood.py",
        "            _follow(likelihood, k, rows, dishes, v, 1.0 / left, prior)\n",
        "            tell(likelihood, k, dishes, prior)\n",
    ),
    Mutation(
        "forms of an emptied slot not those of the prior",
        "model/moves/likelihood.py",
        "        if dishes.size[k] == 0:\n            restart(likelihood, k)\n",
        "",
    ),
    Mutation(
        "forms not computed afresh with the inverse",
        "model/moves/likelihood.py",
        "        if left < gaussian.LOSES_DIGITS:\n",
        "        if left < -1.0:\n",
    ),
    # the books and the concentrations
    Mutation(
        "menu total not kept",
        "model/franchise.py",
        "    franchise.total[0] += menu_weight(franchise, dish) - before\n",
        "    franchise.total[0] += 0.0 * before\n",
    ),
    Mutation(
        "alpha0 of a fading restaurant from its number of tables",
        "model/moves/hyperparameters.py",
        "            opened += franchise.table_founder[t]\n",
        "            opened += 1.0\n",
    ),
    Mutation(
        "alpha0 from one table too many",
        "model/moves/hyperparameters.py",
        "    tables, opened = 0.0, 0.0\n",
        "    tables, opened = 1.0, 0.0\n",
    ),
    Mutation(
        "alpha0 from all groups as one",
        "model/moves/hyperparameters.py",
        "            sizes[franchise.table_group[t]] += franchise.table_mass[t]\n",
        "            sizes[0] += franchise.table_mass[t]\n",
    ),
    Mutation(
        "gamma from dishes among dishes",
        "model/moves/hyperparameters.py",
        "    sizes = np.full(1, franchise.total[0])\n",
        "    sizes = np.full(1, dishes)\n",
    ),
    Mutation(
        "auxiliary variable s never 1",
        "model/moves/hyperparameters.py",
        "                if rng.random() * (sizes[j] + value) < sizes[j]:\n",
        "                if rng.random() * (sizes[j] + value) < 0.0:\n",
    ),
    # loops
    Mutation(
        "alpha0 not drawn in the stream",
        "model/moves/sweeps.py",
        "        resample_alpha(rng, sitting.franchise, STREAM_ALPHA, fading)\n",
        "",
    ),
    Mutation(
        "gamma not drawn in training",
        "model/moves/sweeps.py",
        "    resample_gamma(rng, franchise, GAMMA)\n",
        "",
    ),
    Mutation(
        "averaged probabilities divided by the wrong count",
        "model/moves/sweeps.py",
        "    share = 1.0 / (sweeps - counted_from + 1)\n",
        "    share = 1.0 / (sweeps + 1)\n",
    ),
    # splits and merges
    Mutation(
        "split without the odds of the way back",
        "model/moves/splitting.py",
        "    return seats + log_block + log_back - log_seats - sums[dish] - log_q\n",
        "    return seats + log_block - log_seats - sums[dish] - log_q\n",
    ),
    Mutation(
        "split without the order of seats",
        "model/moves/splitting.py",
        "        seats += math.log(mass)\n",
        "        seats += 0.0\n",
    ),
    # known classes
    Mutation(
        "class density without the weights of its subclasses",
        "model/known.py",
        "                    total += np.exp(log_subclass[i, k] + log_weight[j, k] - peak)\n",
        "                    total += np.exp(log_subclass[i, k] - peak) * float(log_weight[j, k] > -np.inf)\n",
    ),
    Mutation(
        "instance left out of the density but not of the weight",
        "model/known.py",
        "            left = seated[j, k] - (1.0 if k == own else 0.0)\n",
        "            left = seated[j, k]\n",
    ),
    Mutation(
        "pooled covariance over n in place of n - J",
        "model/whitening.py",
        "        within = (1.0 - shrink) * scatter / max(freedom, 1) + shrink * np.diag(spread)\n",
        "        within = (1.0 - shrink) * scatter / n + shrink * np.diag(spread)\n",
    ),
    # sums of terms, bounded scatter
    Mutation(
        "terms of a sum without their largest",
        "model/student_t.py",
        "            out[s, i] += total[i]\n",
        "            out[s, i] = total[i]\n",
    ),
    Mutation(
        "far instances weigh like all others",
        "model/whitening.py",
        "        scaled = np.sqrt(w) * centred[own]\n",
        "        scaled = centred[own]\n",
    ),
    Mutation(
        "instance not taken out of the scatter of its class",
        "model/known.py",
        "    ratio = np.maximum(1.0 - counts * away * form, np.finfo(float).eps)\n",
        "    ratio = np.ones(n)\n",
    ),
    Mutation(
        "broad term without the seats of dropped subclasses",
        "model/known.py",
        "    missing = (size - held)[group] - ~kept + alpha  # of the other instances\n",
        "    missing = np.full(len(rows), alpha)\n",
    ),
    Mutation(
        "broad terms as heavy in the tails as a new subclass",
        "model/known.py",
        "    for tried in least + FREEDOM_ABOVE:\n",
        "    for tried in least + FREEDOM_ABOVE - 4.0:\n",
    ),
    Mutation(
        "dish left out of a re-dishing that is not hopeless",
        "model/moves/seating.py",
        "        floor = best - HOPELESS\n",
        "        floor = best + HOPELESS\n",
    ),
    # the state of the stream
    Mutation(
        "settled seats do not fade",
        "model/franchise.py",
        "        franchise.table_residual[t] *= share\n",
        "",
    ),
    Mutation(
        "books that forget what is held",
        "model/franchise.py",
        "    weight = np.maximum(menu, old.held)\n",
        "    weight = menu.copy()\n",
    ),
    Mutation(
        "books that count closed tables",
        "model/franchise.py",
        "    tables = np.flatnonzero(old.table_dish != CLOSED)\n",
        "    tables = np.arange(len(old.table_dish))\n",
    ),
    Mutation(
        "books without the trained tables",
        "model/franchise.py",
        "lengthened(trained, len(old.held), 0.0)",
        "np.zeros(len(old.held))",
    ),
    Mutation(
        "books that count settled seats alone",
        "model/franchise.py",
        "        seated[old.table_dish[t]] += old.table_mass[t]\n",
        "        seated[old.table_dish[t]] += old.table_residual[t]\n",
    ),
    Mutation(
        "guests of the window keep the numbers of closed tables",
        "model/franchise.py",
        "Guests(window.rows, window.group, window.weight, table_number[window.table])",
        "Guests(window.rows, window.group, window.weight, window.table)",
    ),
    Mutation(
        "merged subclass that forgets that it was held",
        "model/edit.py",
        "    tables.held[to], tables.held[at] = max(tables.held[to], tables.held[at]), 0.0\n",
        "    tables.held[at] = 0.0\n",
    ),
    Mutation(
        "merged subclass without the tables of the other",
        "model/edit.py",
        "    tables.table_dish[tables.table_dish == at] = to\n",
        "    tables.table_dish[tables.table_dish == at] = CLOSED\n",
    ),
    Mutation(
        "part of a subclass without its share of the settled seats",
        "model/edit.py",
        "    going = old.table_residual * serving * share\n",
        "    going = old.table_residual * serving * 0.0\n",
    ),
    Mutation(
        "subclass dropped that is held all the same",
        "model/edit.py",
        "    tables.held[dishes] = 0.0\n",
        "",
    ),
    Mutation(
        "instance withdrawn, its settled seat not",
        "model/edit.py",
        "    tables.table_residual[table] -= weight\n",
        "",
    ),
    Mutation(
        "gathered instances in the statistics of both",
        "model/edit.py",
        "            remove(own, int(k), row, prior)\n",
        "            pass\n",
    ),
    Mutation(
        "instance put back as a guest without a seat at the table",
        "model/edit.py",
        "            tables.table_live[table] += 1\n",
        "",
    ),
    Mutation(
        "tables that keep the old number of their dish",
        "model/edit.py",
        "table_dish=number[state.franchise.table_dish]",
        "table_dish=state.franchise.table_dish.copy()",
    ),
    Mutation(
        "statistics of a subclass cleared with its slot kept",
        "model/moves/seating.py",
        "        else:\n            statistics.clear(dishes, own - frozen, prior)\n",
        "        else:\n            memory.remove(dishes, own - frozen, i, guests.rows, prior, likelihood)\n",
    ),
    Mutation(
        "randomness not wound back when slots run out",
        "model/step.py",
        "        rng.bit_generator.state = randomness\n",
        "",
    ),
    Mutation(
        "randomness not wound back when slots run out, training",
        "model/training.py",
        "        rng.bit_generator.state = state\n",
        "",
    ),
    # what guards the known classes
    Mutation(
        "no mass balance",
        "trust/balance.py",
        "            here[c] = emerging[c] * scale * (share[c] if odds is None else with_odds(share[c], odds[i]))\n",
        "            here[c] = 0.0\n",
    ),
    Mutation(
        "reference instances with their own density in it",
        "trained.py",
        "            draws_of = [with_ranks(known, group, found) for known",
        "            from stream_osr.model.known import log_densities\n"
        "            everyone = trainings[0].seating.guests.rows\n"
        "            log_density = [log_densities(known, densities(known), everyone)[0] for known in draws_of]\n"
        "            draws_of = [with_ranks(known, group, found) for known",
    ),
    Mutation(
        "owner not kept",
        "stream/reference_check.py",
        "    owner, part = owners_of(check.owner, ",
        "    owner, part = owners_of(np.full_like(check.owner, NOBODY), ",
    ),
    Mutation(
        "owner not kept when subclasses come and go",
        "stream/reference_check.py",
        "            owner[k] = check.owner[slot] if check.owner[slot] < n_classes else NOBODY\n",
        "            owner[k] = NOBODY\n",
    ),
    Mutation(
        "the same reference counted again",
        "trust/balance.py",
        "                used = min(asked[j, c], distinct[j])  #",
        "                used = asked[j, c]  #",
    ),
    Mutation(
        "instances of the stream in their own subclass",
        "stream/reference_check.py",
        "    said = Said(result.log_density, result.log_density_new, result.subclass, weight)\n",
        "    said = Said(result.log_density, result.log_density_new, np.full(n, -1), weight)\n",
    ),
    Mutation(
        "books of a part not shared",
        "stream/chain.py",
        "    books.taken[:, cell] *= 0.5\n",
        "",
    ),
    Mutation(
        "openings of owned subclasses not forgotten",
        "stream/reference_check.py",
        "        state=without_openings(state, check, n_classes),\n",
        "        state=state,\n",
    ),
    Mutation(
        "an instance left out without its fold",
        "trust/references.py",
        "        if held.any():\n",
        "        if False:\n",
    ),
    Mutation(
        "conformal rank without the instance itself",
        "trust/references.py",
        "            reached = np.append(reached, reached[-1] + weight.max())\n",
        "            reached = np.concatenate([[0.0], reached, reached[-1:] + weight.max()])\n",
    ),
    # the order of arrival
    Mutation(
        "rejected instances feed the prediction",
        "model/dependence.py",
        "        if given < log_new[i] or log_density[i, own] < least[own]:\n",
        "        if False:\n",
    ),
    Mutation(
        "no stationarity bound",
        "model/dependence.py",
        "                mean[j, a] *= step\n"
        "                variance[j, a] = step * step * variance[j, a] + process.slow[a] * (1.0 - step * step)\n",
        "                variance[j, a] += process.slow[a] * (1.0 - step * step)\n",
    ),
    Mutation(
        "dependence estimated from shuffled order",
        "model/dependence.py",
        '    turn = np.argsort(order, kind="stable")\n    z, group',
        "    order = np.random.default_rng(0).permutation(order)\n"
        '    turn = np.argsort(order, kind="stable")\n    z, group',
    ),
    Mutation(
        "blocks replaced by random folds",
        "trust/references.py",
        "    return _folds(group, p.seed) if order is None else _blocks(group, order)\n",
        "    return _folds(group, p.seed)\n",
    ),
    Mutation(
        "the collective step never yields",
        "stream/arrival_order.py",
        "        return self.process is not None or self.departed >= 0\n",
        "        return False\n",
    ),
    # drawing the base measure
    Mutation(
        "base measure with a prior that is not flat",
        "model/moves/hyperparameters.py",
        "    weights = np.exp(evidence - evidence.max()).ravel()\n",
        "    weights = (np.exp(evidence - evidence.max()) * np.sqrt(grid.psi[:, :, None])).ravel()\n",
    ),
    Mutation(
        "evidence with an instance too few in its exponent",
        "model/moves/hyperparameters.py",
        "        total -= 0.5 * (nu + n)[:, None, None] * determinant\n",
        "        total -= 0.5 * (nu + n - 1)[:, None, None] * determinant\n",
    ),
    Mutation(
        "evidence of beta by one feature of all",
        "model/moves/hyperparameters.py",
        "        total += 0.5 * d * np.log(beta / (beta + n))",
        "        total += 0.5 * np.log(beta / (beta + n))",
    ),
    Mutation(
        "concentrations of categories with a prior that is not flat",
        "model/moves/hyperparameters.py",
        "        weights = np.exp(evidence - evidence.max())\n",
        "        weights = np.exp(evidence - evidence.max()) * np.sqrt(CONCENTRATION)\n",
    ),
    Mutation(
        "base measure drawn as if all instances shared a subclass",
        "model/training.py",
        "draw_prior(rng, rows[:, len(prior.first) :], dish, grid, prior)",
        "draw_prior(rng, rows[:, len(prior.first) :], 0 * dish, grid, prior)",
    ),
    Mutation(
        "new subclasses weighed by the base measure before",
        "model/training.py",
        "            log_new = log_new_densities(seating.guests.rows, prior, location)\n        seating = sweep",
        "        seating = sweep",
    ),
    Mutation(
        "subclasses stated under the base measure before",
        "model/training.py",
        "    dishes = dishes_with(seating.guests.rows, dish, len(seating.dishes.size), prior)\n"
        "    return prior, seating._replace",
        "    dishes = seating.dishes\n    return prior, seating._replace",
    ),
    # broad terms in a step
    Mutation(
        "broad term without its weight",
        "model/known.py",
        "            terms.append(student_t.student_t(shape, missing[j]))\n",
        "            terms.append(student_t.student_t(shape, 0.0))\n",
    ),
    Mutation(
        "class density without its broad term",
        "model/known.py",
        "        if shape is not None:\n            terms",
        "        if False:\n            terms",
    ),
    Mutation(
        "alpha0 by openings although seats do not fade",
        "model/step.py",
        "GUESTS_PER_PROPOSAL), np.isfinite(settings.half_life)\n",
        "GUESTS_PER_PROPOSAL), True\n",
    ),
]


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
