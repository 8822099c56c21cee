"""Checks of archived values, parts before the whole.

Each field is checked by its rule, then the relations between fields. ``records.table`` has both, and this module has
the functions that its relations use. Derived fields are computed again, and the values of a file must agree within
rounding. Checks that a matrix is positive definite come first, so that later checks can rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_osr.archive import rules
from stream_osr.archive.record import RecordForm, RefusedValue, form_of, in_memory
from stream_osr.archive.records import BY_TYPE, EVENTS, RECORDS, ROWS
from stream_osr.archive.rules import Rule, Scope, need
from stream_osr.config import Arguments, Parameters, archived
from stream_osr.discovery.histories import RECENT
from stream_osr.discovery.reservoir import LEAST_ROOM, priority
from stream_osr.errors import PersistenceError
from stream_osr.labels import check_label, unknown_label
from stream_osr.model import gaussian
from stream_osr.model.dependence import LAGS
from stream_osr.model.dishes import log_constant
from stream_osr.model.jit import Array
from stream_osr.model.known import densities
from stream_osr.model.prior import Prior, statistics_shape, width_of
from stream_osr.printable_text import brief, printable

REMEDY = "save it again, or go back to an earlier copy"
MOST = {"chains": 4096, "sweeps": 10**6, "training_sweeps": 10**6, "n_jobs": 4096, "window": 10**7}
"""Largest values of arguments in an archive. They take time and memory even without an instance."""
ROUNDING = 1e-6
"""Relative error of values after many additions and subtractions (``tests/model/test_dishes.py``)."""
WORST = 1e-11
"""Additional error for each unit of the condition number."""
LEAST_SCATTER = 0.01
"""Least scatter, relative to the base measure. An instance may remove more than it added if known classes have
followed drift since then (``follow_drift``). The lowest value seen was 0.985."""


def near(found: Any, expected: Any, rounding: float = ROUNDING) -> bool:
    """Compare numbers that are computed in two ways. Minus infinity equals itself."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    with np.errstate(invalid="ignore"):
        fits = np.abs(found - expected) <= rounding * np.maximum(1.0, np.abs(expected))
    return bool((fits | (found == expected)).all())


def once(values: Any) -> bool:
    """Check whether each value occurs once."""
    return len(set(values)) == len(values)


def array(values: Array | None) -> Array:
    """Return an array, empty if there is none."""
    return np.zeros(0, np.int64) if values is None else values


def begins(counts: Array | None) -> list[int]:
    """Return the beginnings of parts with these sizes."""
    return [int(end - size) for end, size in zip(np.cumsum(array(counts)), array(counts), strict=True)]


def _memory(form: RecordForm) -> Any:
    return in_memory(form, RECORDS, {})


def rows_fit(rows: Array, base: RecordForm, where: str) -> bool:
    """Check that whitened rows, shape (n, C + d) or homogeneous, have the right width and valid places."""
    prior: Prior = _memory(base)
    wide = rows.shape[1] in (width_of(prior), width_of(prior) + 1)
    need(wide, where, f"of {rows.shape[1]} numbers", f"{width_of(prior)}: categories and dimensions")
    own, ends = rows[:, : len(prior.first)], np.append(prior.first[1:], len(prior.pseudo))
    need(((own >= prior.first) & (own < ends) & (own % 1.0 == 0.0)).all(), where, "of others", "places of categories")
    return True


def kept_fit(kept: RecordForm | None, base: RecordForm) -> bool:
    """Check the sampled rows of a subclass."""
    if kept is None or not len(kept.seq):
        return True
    return kept.rows.shape[1] == width_of(_memory(base)) and rows_fit(kept.rows, base, "Reservoir.rows")


def definite(matrix: Array, where: str) -> bool:
    """Refuse a matrix that is not symmetric positive definite."""
    same = np.allclose(matrix, matrix.T, rtol=ROUNDING, atol=ROUNDING * float(np.abs(matrix).max(initial=0.0)))
    need(same, where, "not symmetric", "a symmetric matrix")
    try:
        if not (np.diag(matrix) > 0.0).all():
            raise np.linalg.LinAlgError
        scale = np.sqrt(np.diag(matrix))
        np.linalg.cholesky(matrix / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        raise RefusedValue(where, "not positive definite", "a covariance or what is left of one") from None
    return True


def statistics_fit(statistics: RecordForm, base: RecordForm | Prior, where: str) -> bool:
    """Check sizes, matrices and counts of subclasses under a base measure."""
    prior: Prior = base if isinstance(base, Prior) else _memory(base)
    size, matrix, counts, d = statistics.size, statistics.matrix, statistics.counts, prior.n_features
    shape, places = statistics_shape(prior), len(prior.pseudo)
    need(matrix.shape[1:] == shape, f"{where}.matrix", f"of {matrix.shape[1:]} for each", f"{shape}")
    right = places == 0 if counts is None else counts.shape[1] == places > 0
    need(right, f"{where}.counts", "of others", f"counts of {places} places: Prior.pseudo")
    for own in np.split(counts, prior.first[1:], axis=1) if counts is not None else ():
        fits = near(own[:, 0], own[:, 1:].sum(axis=1), 0.0) and (own[:, 0] <= size).all()
        need(fits, f"{where}.counts", "others", "first of a column the sum of the others")
    for k, (n, own) in enumerate(zip(size.tolist(), matrix, strict=True)):
        at, r = f"{where}.matrix[{k}]", prior.beta + n
        need(near(own[d, d], r), f"{at}[{d}, {d}]", f"{own[d, d]:.9g}", f"{r:.9g}: prior.beta + size")
        definite(own, at)
        scatter = own[:d, :d] - np.outer(own[d, :d], own[d, :d]) / r
        least = float(np.linalg.eigvalsh(scatter)[0]) if d else prior.psi
        enough = least >= LEAST_SCATTER * prior.psi - WORST * float(np.abs(own).max())
        expected = f"{LEAST_SCATTER} of the prior's at least, which is {prior.psi:.6g}: Prior.psi"
        need(enough, at, f"of a scatter of {least:.6g}", expected)
    return True


def dishes_fit(dishes: RecordForm, base: RecordForm, where: str) -> bool:
    """Check statistics of subclasses, and the values derived for the predictive."""
    prior: Prior = _memory(base)
    statistics_fit(dishes, prior, where)
    for k, (n, own) in enumerate(zip(dishes.size.tolist(), dishes.matrix, strict=True)):
        inverse, rounding = np.empty_like(own), ROUNDING
        own = np.ascontiguousarray(own)
        log_det = gaussian.invert(own, inverse)
        scale = np.sqrt(np.diag(own))
        scale = np.outer(scale, scale)
        rounding += WORST * float(np.linalg.cond(own / scale))
        fits = near(dishes.inverse[k] * scale, inverse * scale, rounding)
        need(fits, f"{where}.inverse[{k}]", "another", "as its matrix says")
        need(near(dishes.log_det[k], log_det, rounding), f"{where}.log_det[{k}]", "another", "as its matrix says")
        constant = [log_constant(n, prior), log_constant(n - 1, prior) if n else -np.inf]
        need(near(dishes.constant[k], constant), f"{where}.constant[{k}]", "another", "as its size says")
    return True


def densities_fit(frozen: RecordForm, known: RecordForm) -> bool:
    """Check the frozen densities of known classes that have been checked."""
    found = densities(_memory(known))
    fits = near(frozen.log_weight, found.log_weight) and near(frozen.menu, found.menu)
    for name, values in found.student_terms._asdict().items():
        own = frozen.terms[name]
        if name == "values" and not values.shape[1]:
            fits &= own is None
        else:
            least = float(np.abs(values).max(initial=1.0)) if name == "packed" else 1.0
            fits &= own is not None and own.shape == values.shape and near(own / least, values / least)
    return fits


def categories_of(columns: Array | None, binary_features: RecordForm | None) -> Array:
    """List the raw features that are categories."""
    return np.concatenate([array(columns), array(None if binary_features is None else binary_features.members)])


def space_fits(columns: Array | None, places: Array, binary_features: RecordForm | None, forward: Array) -> bool:
    """Check the categories, and the number of coordinates from the other features."""
    p, d = forward.shape
    apart = categories_of(columns, binary_features)
    sizes, given = array(None if binary_features is None else binary_features["sizes"]), len(array(columns))
    least, most = (0, p - len(apart)) if len(apart) else (1, p)
    right = least <= d <= most and array(places)[given:].tolist() == (sizes + 2).tolist()
    return right and len(array(places)) == given + len(sizes) and bool((apart < p).all()) and once(apart.tolist())


def counts_fit(known: RecordForm, references: RecordForm | None) -> bool:
    """Check that all seated instances count, unless statistics are tempered."""
    tempered = references is not None and references.tempered
    return tempered or near(known.dishes.size, known.seated.sum(axis=0), 0.0)


def served(franchise: RecordForm, trained: Array) -> Array:
    """Count the tables of each dish, including those of the known classes."""
    out = np.bincount(franchise.table_dish, minlength=len(franchise.menu)).astype(float)
    out[: len(trained)] += trained
    return out


def fit_without_window(state: RecordForm, base: RecordForm, n_classes: int) -> bool:
    """Check that each emerging subclass contains its instances of the window, and is valid without them."""
    window, dishes, prior = state.window, state.dishes, _memory(base)
    slots = state.franchise.table_dish[window.table] - n_classes
    guests = np.bincount(slots[slots >= 0], minlength=len(dishes.size))
    need((guests <= dishes.size).all(), "StreamState.dishes.size", "less", "its guests in the window")
    for k in np.flatnonzero(guests):
        rows, matrix = window.rows[slots == k, len(prior.first) :], dishes.matrix[k]
        rest = matrix - rows.T @ rows + np.diag(np.diag(matrix)) * ROUNDING
        definite(rest, f"StreamState.dishes.matrix[{k}] without its guests")
    return True


def as_in_window(chunk: RecordForm, state: RecordForm) -> bool:
    """Compare remembered instances with those of the window."""
    rows = dict(zip(state.window_seq.tolist(), state.window.rows, strict=True))
    return all(at not in rows or np.array_equal(rows[at][:-1], row) for at, row in enumerate(chunk.rows, chunk.seq))


def action_fits(action: RecordForm, chains: tuple[RecordForm, ...], labels: tuple[Any, ...]) -> bool:
    """Check an action that can be undone."""
    base = chains[0].known.prior
    d = width_of(_memory(base))
    moved = action.name == "Muting" or action.shift is None or len(action.shift) == d
    if action.name != "Labelling":
        right = action.name != "Promotion" or action.label in labels
        return right and moved and len(action.subclasses) == len(chains)
    seen, earlier = chains[0].state.seen, 0 if action.seq < 0 else len(chains)
    alike = all(isinstance(label, str) == isinstance(action.label, str) for label in labels)
    lengths = {len(action[name]) for name in ("subclass", "seats", "classes")}
    right = alike and lengths == {earlier} and moved and len(action.into) == len(chains) and len(action.row) == d
    return right and max(action.seq, action.seen) <= seen and rows_fit(action.row[None], base, "Labelling.row")


def may_be_labels(labels: tuple[Any, ...], unknown: Any, first: int = 0) -> bool:
    """Check labels from a place on, each against those before it."""
    for at in range(first, len(labels)):
        check_label(labels[at], labels[:at] or labels, unknown)
    return True


def width(base: RecordForm) -> int:
    """Return the number of values in a whitened row."""
    return width_of(_memory(base))


TOOLS = {
    "Arguments": Arguments,
    "archived": archived,
    "RECENT": RECENT,
    "LEAST_ROOM": LEAST_ROOM,
    "LAGS": LAGS,
    "priorities": priority,
    "unknown_label": unknown_label,
}
"""Names for relations, in addition to those of this module."""


def _check_relations(name: str, values: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    for relation in ROWS[name].relations:
        try:
            holds = bool(np.all(eval(relation, {**globals(), **TOOLS, **more, **values})))
        except RefusedValue:
            raise
        except Exception:  # what does not fit together may lead to anything
            holds = False
        field = next((each for each in relation.co_names if each in values), "")
        plainly = isinstance(values.get(field), str | int | float)
        found = brief(values[field]) if plainly else "not what it should be beside the other fields"
        need(holds, f"{name}.{field}", found, relation.co_filename)


def check_records(value: Any) -> None:
    """Check every record in a value, at any depth.

    Raises
    ------
    RefusedValue
        With record and field.
    """
    if isinstance(value, RecordForm):
        if value.sizes is None:
            _check_record(value)
    elif isinstance(value, tuple | list | dict):
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            check_records(each)


def _check_record(form: RecordForm) -> None:
    entry = RECORDS.get(form.name)
    if entry is None:
        raise RefusedValue(f"record {printable(form.name, 60)}", "unknown", "one that this release knows")
    for name in form.values:
        field = f"{form.name}.{printable(str(name), 60)}"
        need(name in entry.rules, field, "unknown", "a field that this release knows")
    check_records(tuple(form.values.values()))
    scope = Scope()
    for name, rule in entry.rules.items():
        need(name in form.values, f"{form.name}.{name}", "missing", "a value")
        rule(form.values[name], f"{form.name}.{name}", scope)
    for letter in entry.letters:
        need(letter in scope, form.name, f"empty: no field defines the size {letter}", "a field that does")
    form.sizes = tuple(scope[letter][0] for letter in entry.letters)
    _check_relations(form.name, form.values, {})


def check_content(value: Any, rule: Rule, what: str) -> None:
    """Check a value in memory that comes from an archive, including its records.

    Parameters
    ----------
    value
        The value.
    rule
        Rule for the whole value.
    what
        Name of the value for the message.

    Raises
    ------
    PersistenceError
        With the field.
    """
    form = form_of(value, BY_TYPE, {})
    try:
        check_records(form)
        rule(form, "", {})
    except RefusedValue as refused:
        raise PersistenceError(f"{what} cannot be used: {refusal_message(refused)}") from None


def refusal_message(refused: RefusedValue) -> str:
    """Return the text of a refusal, with the remedy."""
    return f"{printable(str(refused))}; {REMEDY}"


_PARTS = tuple(ROWS["training"].rules.values())
ALWAYS = 9
"""Number of parts that every training set has."""


def _training(value: Any, where: str, scope: Scope) -> None:
    """Expect a training set, whose last part, on the reading of features, is optional."""
    more = isinstance(value, tuple) and len(value) > ALWAYS
    rules.tuple_of(*_PARTS[: None if more else ALWAYS])(value, where, scope)


_NAMES = rules.many(rules.plain)
_PERHAPS = {"fingerprint": rules.text(), "unmet": rules.maybe(rules.tuple_of(_NAMES, _NAMES, _NAMES))}
_FIELDS = {
    **ROWS["recognizer"].rules,
    "training": rules.maybe(_training),
    "events": rules.many(rules.record(EVENTS), of=list),
}
RECOGNIZER = rules.fields(_PERHAPS, **_FIELDS)


def check_recognizer(state: Mapping[str, Any], parameters: Parameters, name: str) -> None:
    """Check the result of :meth:`stream_osr.OpenSetRecognizer.as_state`, or the same content of an archive.

    Raises
    ------
    PersistenceError
        With record and field.
    """
    together = rules.also(lambda form, _: _check_relations("recognizer", form, {"p": parameters}), RECOGNIZER)
    check_content(state, together, name)
