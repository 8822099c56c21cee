"""Checks of archived values, parts before the whole.

Each field is checked by its rule, then the relations between fields. This module has the functions that
``relations.py`` uses. Derived fields are computed again, and the values of a file must agree within
rounding. Checks that a matrix is positive definite come first, so that later checks can rely on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from stream_osr.archive.record import in_memory
from stream_osr.archive.records import EVENTS, RECORDS, inverses
from stream_osr.archive.relations import RELATIONS
from stream_osr.config import Arguments, archived, grouped, plain
from stream_osr.discovery.reservoir import LEAST_ROOM, priority
from stream_osr.errors import StreamOSRError
from stream_osr.instances.labels import check_label, unknown_label
from stream_osr.model.autocorrelation import LAGS
from stream_osr.model.dish_statistics import log_constant
from stream_osr.model.jit import Array
from stream_osr.model.known import menu
from stream_osr.model.prior import Prior, statistics_shape, width_of
from stream_osr.parameters import parameters
from stream_osr.printable_text import brief, printable
from stream_osr.support import rules
from stream_osr.support.rules import RecordForm, RefusedValue, Scope, need

ARGUMENTS = frozenset(archived(Arguments()))
"""Names of all arguments of the constructor."""
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
    if isinstance(found, float) and isinstance(expected, float | int):  # as below, without arrays
        return bool(found == expected or abs(found - expected) <= rounding * max(1.0, abs(expected)))
    return bool(_near(found, expected, rounding).all())


def _near(found: Any, expected: Any, rounding: Any = ROUNDING) -> Array:
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    with np.errstate(invalid="ignore"):
        fits = np.abs(found - expected) <= rounding * np.maximum(1.0, np.abs(expected))
    return np.asarray(fits | (found == expected))


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
    """Check that whitened rows, shape (n, C + d), have the right width and valid places."""
    prior: Prior = _memory(base)
    wide = width_of(prior)
    need(rows.shape[1] == wide, where, f"of {rows.shape[1]} numbers", f"{wide}: categories and dimensions")
    own, ends = rows[:, : len(prior.first)], np.append(prior.first[1:], len(prior.pseudo))
    need(((own >= prior.first) & (own < ends) & (own % 1.0 == 0.0)).all(), where, "of others", "places of categories")
    return True


def definite(matrices: Array, where: str) -> bool:
    """Refuse matrices, shape (K, a, a), that are not symmetric positive definite."""
    turned = matrices.transpose(0, 2, 1)
    bounds = np.abs(turned) + np.abs(turned).max(axis=(1, 2), keepdims=True, initial=0.0)
    rules.each(np.abs(matrices - turned) <= ROUNDING * bounds, matrices, where, "a symmetric matrix")
    least = np.einsum("kaa->ka", matrices).min(axis=1, initial=np.inf)
    rules.each(least > 0.0, least, where, "a positive diagonal")
    scaled = matrices / _scales(matrices)
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        k = int(np.linalg.eigvalsh(scaled)[:, 0].argmin())
        raise RefusedValue(f"{where}[{k}]", "not positive definite", "a covariance or what is left of one") from None
    return True


def _scales(matrices: Array) -> Array:
    """Return what divides matrices, shape (K, a, a), so that their diagonals become 1."""
    roots = np.sqrt(np.einsum("kaa->ka", matrices))
    return np.asarray(roots[:, :, None] * roots[:, None, :])


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
    r, last = prior.beta + size, matrix[:, d, d]
    rules.each(_near(last, r), last, f"{where}.matrix[:, {d}, {d}]", "prior.beta + size")
    definite(matrix, f"{where}.matrix")
    if d:
        mean = matrix[:, d, :d]
        scatter = matrix[:, :d, :d] - mean[:, :, None] * mean[:, None, :] / r[:, None, None]
        narrowest = prior.psi * float(prior.spread.min())
        bound = LEAST_SCATTER * narrowest - WORST * np.abs(matrix).max(axis=(1, 2), initial=0.0)
        try:  # definite above the bound, which is cheaper than the least eigenvalue
            np.linalg.cholesky(scatter - bound[:, None, None] * np.eye(d))
        except np.linalg.LinAlgError:
            least = np.linalg.eigvalsh(scatter)[:, 0]
            expected = f"a scatter of {LEAST_SCATTER * narrowest:.6g} at least, by Prior.psi and Prior.spread"
            rules.each(least >= bound, least, f"{where}.matrix", expected)
    return True


def dishes_fit(dishes: RecordForm, base: RecordForm, where: str) -> bool:
    """Check statistics of subclasses, and the values derived for the predictive."""
    prior: Prior = _memory(base)
    statistics_fit(dishes, prior, where)
    inverse, log_det = inverses(dishes.matrix)
    scales = _scales(dishes.matrix)
    around, within, found = dishes.matrix / scales, inverse * scales, dishes.inverse * scales
    norms = [np.abs(each).sum(axis=2).max(axis=1, initial=0.0) for each in (around, within)]
    rounding = ROUNDING + WORST * norms[0] * norms[1]  # by the condition numbers
    rules.each(_near(found, within, rounding[:, None, None]), found, f"{where}.inverse", "as its matrix says")
    rules.each(_near(dishes.log_det, log_det, rounding), dishes.log_det, f"{where}.log_det", "as its matrix says")
    constants = _constants(dishes.size, prior)
    rules.each(_near(dishes.constant, constants), dishes.constant, f"{where}.constant", "as its size says")
    return True


def _constants(size: Array, prior: Prior) -> Array:
    pairs = [(log_constant(n, prior), log_constant(n - 1, prior) if n else -np.inf) for n in size.tolist()]
    return np.array(pairs).reshape(-1, 2)


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


def served(franchise: RecordForm, known: RecordForm) -> Array:
    """Count the tables of each dish, including those of the known classes, which have been checked."""
    trained = menu(_memory(known))
    out = np.bincount(franchise.table_dish, minlength=len(franchise.menu)).astype(float)
    out[: len(trained)] += trained
    return out


def fit_without_window(state: RecordForm, base: RecordForm, n_classes: int) -> bool:
    """Check that each emerging subclass contains its instances of the window, and is valid without them."""
    window, dishes, prior = state.window, state.dishes, _memory(base)
    slots = state.franchise.table_dish[window.table] - n_classes
    guests = np.bincount(slots[slots >= 0], minlength=len(dishes.size))
    need((guests <= dishes.size).all(), "StreamState.dishes.size", "less", "its guests in the window")
    own = np.flatnonzero(guests)
    rest = dishes.matrix[own]
    for at, k in enumerate(own):
        rows = window.rows[slots == k, len(prior.first) :]
        rest[at] += np.diag(np.diag(rest[at])) * ROUNDING - rows.T @ rows
    definite(rest, "StreamState.dishes.matrix without its guests")
    return True


def as_in_window(decided: tuple[RecordForm, ...], state: RecordForm) -> bool:
    """Compare remembered instances, without gaps, with those of the window."""
    if not decided:
        return True
    at = state.window_seq - decided[0].seq
    rows = np.concatenate([each.rows for each in decided])
    both = (at >= 0) & (at < len(rows))
    return np.array_equal(state.window.rows[both, :-1], rows[at[both]])


def action_fits(action: RecordForm, chains: tuple[RecordForm, ...], labels: tuple[Any, ...]) -> bool:
    """Check an action on instances or subclasses that can be undone."""
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


def may_be_labels(labels: tuple[Any, ...], unknown: Any) -> bool:
    """Check labels, each against those before it."""
    for at in range(len(labels)):
        check_label(labels[at], labels[:at] or labels, unknown)
    return True


def width(base: RecordForm) -> int:
    """Return the number of values in a whitened row."""
    return width_of(_memory(base))


TOOLS = {"LEAST_ROOM": LEAST_ROOM, "LAGS": LAGS, "priorities": priority, "unknown_label": unknown_label}
"""Names for relations, in addition to those of this module."""


_RELATIONS = defaultdict[str, list[CodeType]](list)
for _name, _, _relation in (each.partition(": ") for each in RELATIONS):
    _RELATIONS[_name].append(compile(_relation, _relation, "eval"))


def _check_relations(name: str, values: Mapping[str, Any], relations: Iterable[CodeType], **more: Any) -> None:
    names = {**globals(), **TOOLS, **more, **values}
    for relation in relations:
        try:
            found = eval(relation, names)
            holds = found if isinstance(found, bool) else bool(np.all(found))
        except RefusedValue:
            raise
        except Exception:  # what does not fit together may lead to anything
            holds = False
        if not holds:
            field = next((each for each in relation.co_names if each in values), "")
            plainly = isinstance(values.get(field), str | int | float)
            shown = brief(values[field]) if plainly else "not what it should be beside the other fields"
            raise RefusedValue(f"{name}.{field}", shown, relation.co_filename)


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
            if type(each) in _NESTED:
                check_records(each)


def _check_record(form: RecordForm) -> None:
    entry = RECORDS.get(form.name)
    if entry is None:
        raise RefusedValue(f"record {printable(form.name, 60)}", "unknown", "one that this release knows")
    values, scope = form.values, Scope()
    if strange := (values.keys() ^ entry.rules.keys()) - (entry.optional - values.keys()):
        name = next(iter(strange))
        missing = name in entry.rules
        found, expected = ("missing", "a value") if missing else ("unknown", "a field that this release knows")
        raise RefusedValue(f"{form.name}.{printable(str(name), 60)}", found, expected)
    for value in values.values():
        if type(value) in _NESTED:
            check_records(value)
    for name, rule in entry.rules.items():
        rule(values.get(name), f"{form.name}.{name}", scope)
    form.sizes = scope
    if form.name in _RELATIONS:
        _check_relations(form.name, values, _RELATIONS[form.name])


_NESTED = {RecordForm, tuple, list, dict}


_PLAIN, _FEATURES = rules.many(rules.plain), rules.many(rules.plain, "p")
_PAIRS = rules.many(rules.many(rules.plain, "2"))
_PARTS = (
    rules.whole(1, rules.LARGEST),  # capacity
    rules.whole(0, rules.LARGEST),  # seed
    rules.every(_FEATURES, rules.distinct),  # names
    rules.every(rules.many(rules.label, "J"), rules.distinct),  # labels
    rules.many(rules.whole(1, rules.LARGEST), "J"),  # seen
    rules.many(rules.array("f", "*", "p", allowed=("nan",)), "J"),  # rows
    rules.many(rules.maybe(rules.many(rules.text())), "p"),  # kinds
    rules.many(rules.array("i", "*", low=0), "J"),  # arrived
    rules.many(rules.flag, "p"),  # written
    _PLAIN,  # fixed
    _PAIRS,  # commas
    _PAIRS,  # left_out
    rules.text(),  # group_name
    rules.many(rules.many(rules.maybe(rules.plain)), "J"),  # groups
)
ALWAYS, WITH_READING = 9, 12
"""Number of parts that every training set has, and with those on the reading of features."""


def _training(value: Any, where: str, scope: Scope) -> None:
    """Expect a training set. Its parts on the reading of features and on groups are optional."""
    size = len(value) if isinstance(value, tuple) else 0
    there = min((each for each in (ALWAYS, WITH_READING, len(_PARTS)) if each >= size), default=len(_PARTS))
    rules.tuple_of(*_PARTS[:there])(value, where, scope)


_PERHAPS = {"fingerprint": rules.text(), "unmet": rules.maybe(rules.tuple_of(_PLAIN, _PLAIN, _PLAIN))}
_RECOGNIZER = rules.fields(
    _PERHAPS,
    arguments=rules.mapping(rules.text(), rules.plain),
    counters=rules.mapping(rules.text(), rules.whole(0, rules.LARGEST)),
    training=rules.maybe(_training),
    trained=rules.maybe(rules.record("TrainedModel")),
    stream=rules.maybe(rules.record("Stream")),
    buffer=rules.many(rules.record("Arrived"), of=list),
    evidence=rules.many(rules.record("Evidence"), of=list),
    decisions=rules.many(rules.record("Decision"), of=list),
    events=rules.many(rules.record(*EVENTS), of=list),
)


def recognizer(form: Any, where: str, scope: Scope) -> None:
    """Expect the result of :func:`stream_osr.archive.recognizers.content_of`."""
    _RECOGNIZER(form, where, scope)
    try:
        p = parameters(**plain(Arguments(**grouped(**form["arguments"]))))
    except (StreamOSRError, TypeError, ValueError) as error:
        raise RefusedValue(
            "recognizer.arguments", printable(str(error), 300), "arguments of the constructor"
        ) from None
    for name in ("recognizer", *(part for part in ("training", "stream") if form[part] is not None)):
        _check_relations("recognizer", form, _RELATIONS[name], p=p)
