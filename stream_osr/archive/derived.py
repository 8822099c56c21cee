"""What follows from other fields is computed anew, and what a file says of it has to agree within rounding.

What decides whether a matrix can be worked with comes first: nothing here, and nothing after it, sees one that is not
positive definite.
"""

from __future__ import annotations

import numpy as np

from stream_osr.archive.form import Form, Refused, in_memory
from stream_osr.archive.needs import ROUNDING, check_same, each, need
from stream_osr.archive.records import RECORDS
from stream_osr.model.dishes import log_constant
from stream_osr.model.gaussian import diagonal, full
from stream_osr.model.known import Known, densities
from stream_osr.model.prior import DIAGONAL, FULL, Prior, statistics_shape, width_of

WORST = 1e-11
"""What a unit of the condition number adds to it."""

LEAST_SCATTER = 0.01
"""Of that of the base measure. An instance that leaves a subclass may take more than it brought: known classes that
follow their instances have moved meanwhile (``follow_drift``; .985 was seen)."""


def prior_of(form: Form) -> Prior:
    """Make the base measure of a record that has been checked."""
    prior: Prior = in_memory(form, RECORDS, {})
    return prior


def check_prior(form: Form) -> None:
    """Refuse degrees of freedom that are too few."""
    least = form["n_features"] - 1
    need(form["nu"] > least, "Prior.nu", f"{form['nu']:g}", f"more than {least}: n_features - 1")
    first, pseudo = form["first"], form["pseudo"]
    need((first is None) == (pseudo is None), "Prior.pseudo", "there alone", "beside Prior.first")
    need(first is not None or form["n_features"] > 0, "Prior.n_features", 0, "1 at least: there are no categories")
    if first is not None:
        ends = np.append(first[1:], len(pseudo))
        need(first[0] == 0, "Prior.first[0]", first[0], "0")
        each(ends - first >= 2, first, "Prior.first", "two places of each column at least")
        whole = np.array([own[1:].sum() for own in np.split(pseudo, first[1:])])
        check_same(pseudo[first], whole, "Prior.pseudo, first of each column", "the sum of the others")


def check_counts(counts: np.ndarray | None, size: np.ndarray, prior: Prior, where: str) -> None:
    """Check how often the values of categories are in subclasses."""
    places = len(prior.pseudo)
    if counts is None:
        need(not places, where, None, f"counts of {places} places")
        return
    need(counts.shape[1] == places, where, f"of {counts.shape[1]} places", f"{places}: Prior.pseudo")
    for own in np.split(counts, prior.first[1:], axis=1):
        check_same(own[:, 0], own[:, 1:].sum(axis=1), f"{where}, first of a column", "the sum of the others", 0.0)
        each(own[:, 0] <= size, own[:, 0], where, "no more than there are instances")


def check_rows(rows: np.ndarray, prior: Prior, where: str) -> None:
    """Check that whitened rows, shape (n, C + d) or homogeneous, are as wide as they should, and name places."""
    columns = len(prior.first)
    wide = rows.shape[1] in (width_of(prior), width_of(prior) + 1)
    need(wide, where, f"of {rows.shape[1]} numbers", f"{width_of(prior)}: categories and dimensions")
    ends = np.append(prior.first[1:], len(prior.pseudo))
    own = rows[:, :columns]
    each((own >= prior.first) & (own < ends) & (own % 1.0 == 0.0), own, where, "places of categories")


def check_definite(matrix: np.ndarray, where: str) -> None:
    """Refuse what is no symmetric positive definite matrix."""
    same = np.allclose(matrix, matrix.T, rtol=ROUNDING, atol=ROUNDING * float(np.abs(matrix).max(initial=0.0)))
    need(same, where, "not symmetric", "a symmetric matrix")
    try:
        if not (np.diag(matrix) > 0.0).all():
            raise np.linalg.LinAlgError
        scale = np.sqrt(np.diag(matrix))
        np.linalg.cholesky(matrix / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        raise Refused(where, "not positive definite", "a covariance or what is left of one") from None


def check_statistics(statistics: Form, prior: Prior, where: str) -> None:
    """Check sizes and matrices of subclasses under a base measure."""
    size, matrix, d, shape = statistics["size"], statistics["matrix"], prior.n_features, statistics_shape(prior)
    need(matrix.shape[1:] == shape, f"{where}.matrix", f"of {matrix.shape[1:]} for each", f"{shape}")
    check_counts(statistics["counts"], size, prior, f"{where}.counts")
    for k, (n, own) in enumerate(zip(size.tolist(), matrix, strict=True)):
        at, r = f"{where}.matrix[{k}]", prior.beta + n
        if prior.covariance == FULL:
            check_same(own[d:, d], np.array([r]), f"{at}[{d}]", "prior.beta + size")
            check_definite(own, at)
            scatter = own[:d, :d] - np.outer(own[d, :d], own[d, :d]) / r
            least = float(np.linalg.eigvalsh(scatter)[0]) if d else prior.psi
        elif prior.covariance == DIAGONAL:
            least = float((own[1] - own[0] ** 2 / r).min(initial=np.inf))
        else:
            continue
        enough = least >= LEAST_SCATTER * prior.psi - WORST * float(np.abs(own).max())
        expected = f"{LEAST_SCATTER} of the prior's at least, which is {prior.psi:.6g}: Prior.psi"
        need(enough, at, f"of a scatter of {least:.6g}", expected)


def check_dishes(dishes: Form, prior: Prior, where: str) -> None:
    """Check statistics of subclasses, and what is kept of them for the predictive."""
    check_statistics(dishes, prior, where)
    for k, (n, own) in enumerate(zip(dishes["size"].tolist(), dishes["matrix"], strict=True)):
        inverse, rounding = np.empty_like(own), ROUNDING
        own = np.ascontiguousarray(own)
        if prior.covariance == FULL:
            log_det = full.invert(own, inverse)
            scale = np.sqrt(np.diag(own))
            scale = np.outer(scale, scale)
            rounding += WORST * float(np.linalg.cond(own / scale))
        elif prior.covariance == DIAGONAL:
            log_det = diagonal.refresh(own, inverse, n, prior)
            rounding += WORST * float((own[1] / inverse[1]).max(initial=1.0))
            scale = 1.0 / np.maximum(np.abs(inverse), 1.0)
        else:
            inverse, log_det, scale = own / (prior.beta + n), 0.0, np.ones_like(own)
        why = "by its matrix"
        check_same(dishes["inverse"][k] * scale, inverse * scale, f"{where}.inverse[{k}]", why, rounding)
        check_same(dishes["log_det"][k : k + 1], np.array([log_det]), f"{where}.log_det[{k}]", why, rounding)
        constant = [log_constant(n, prior), log_constant(n - 1, prior) if n else -np.inf]
        check_same(dishes["constant"][k], np.array(constant), f"{where}.constant[{k}]", "by its size")


def check_densities(frozen: Form, known: Known, where: str) -> None:
    """Check the frozen densities of known classes that have been checked."""
    found = densities(known)
    why = "by the known classes"
    check_same(frozen["log_weight"], found.log_weight, f"{where}.log_weight", why)
    check_same(frozen["menu"], found.menu, f"{where}.menu", why)
    for name, values in found.terms._asdict().items():
        if name == "values" and not values.shape[1]:
            need(frozen["terms"][name] is None, f"{where}.terms.{name}", "there", "nothing: there are no categories")
            continue
        need(frozen["terms"][name] is not None, f"{where}.terms.{name}", None, "log probabilities")
        own, at = frozen["terms"][name], f"{where}.terms.{name}"
        need(own.shape == values.shape, at, f"of {own.shape}", f"{values.shape}, {why}")
        least = float(np.abs(values).max(initial=1.0)) if name == "packed" else 1.0
        check_same(own / least, values / least, at, why)
