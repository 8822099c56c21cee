"""What a recognizer is in an archive: its arguments, training set, trained part, stream, and what waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_osr.archive import rules
from stream_osr.archive.checking import REMEDY, check_content
from stream_osr.archive.derived import prior_of
from stream_osr.archive.form import Form
from stream_osr.archive.model_checks import check_counts
from stream_osr.archive.needs import need
from stream_osr.archive.records import EVENTS, ROWS
from stream_osr.config import Arguments, Parameters, archived
from stream_osr.errors import InvalidLabel, InvalidParameter, PersistenceError
from stream_osr.labels import check_label, unknown_label
from stream_osr.model.prior import width_of

MOST = {"chains": 4096, "sweeps": 10**6, "training_sweeps": 10**6, "n_jobs": 4096, "window": 10**7}
"""Arguments that an archive may not ask more of: they stand for time and memory without a single instance."""

_PARTS = tuple(ROWS["training"].rules.values())
ALWAYS = 9
"""Parts of a training set that are always there."""


def _training(value: Any, where: str, scope: rules.Scope) -> None:
    """Expect a training set; how its features are read comes last, where there is anything to say."""
    more = isinstance(value, tuple) and len(value) > ALWAYS
    rules.tuple_of(*_PARTS[: None if more else ALWAYS])(value, where, scope)


_TRAINING = rules.maybe(_training)
_EVENTS = rules.many(rules.record(EVENTS), of=list)
_NAMES = rules.many(rules.plain)
_UNMET = rules.maybe(rules.tuple_of(_NAMES, _NAMES, _NAMES))
_FIELDS = {**ROWS["recognizer"].rules, "training": _TRAINING, "events": _EVENTS}
RECOGNIZER = rules.fields({"fingerprint": rules.text(), "unmet": _UNMET}, **_FIELDS)


def check_recognizer(state: Mapping[str, Any], parameters: Parameters, name: str) -> None:
    """Check what :meth:`stream_osr.OpenSetRecognizer.as_state` returns, or an archive of that name holds of it.

    Raises
    ------
    PersistenceError
        Naming record and field.
    """
    whole = rules.also(lambda form, _: _check_together(form, parameters), RECOGNIZER)
    try:
        check_content(state, whole, name)
    except (InvalidLabel, InvalidParameter) as error:
        raise PersistenceError(f"{name} cannot be used: {error}; {REMEDY}") from None


def _check_together(form: Mapping[str, Any], parameters: Parameters) -> None:
    lacking = sorted(set(archived(Arguments())) - set(form["arguments"]))
    need(not lacking, "arguments", f"without {', '.join(lacking)}", "all of the constructor's")
    for name, most in MOST.items():
        value = getattr(parameters, name)
        need(value is None or value <= most, f"arguments.{name}", value, f"{most} at most")
    training, trained, stream = form["training"], form["trained"], form["stream"]
    if training is None:
        need(trained is not None, "trained", None, "a trained model: training has ended")
    else:
        _check_training(training, parameters)
    need((trained is None) == (stream is None), "stream", "there alone", "a stream over its trained model")
    if trained is None or stream is None:
        for name in ("buffer", "evidence", "decisions"):
            need(not form[name], name, f"of {len(form[name])}", "nothing before training has ended")
        return
    _check_stream(stream, trained, parameters, frozen=training is None)
    p, d = len(trained["names"]), width_of(prior_of(trained["draws"][0]["prior"]))
    columns = trained["space"]["columns"]
    for at, arrived in enumerate(form["buffer"]):
        need(len(arrived["row"]) == p, f"buffer[{at}].row", f"of {len(arrived['row'])}", f"{p}: features")
        codes = arrived["row"][[] if columns is None else columns]
        need(not (codes < 0.0).any(), f"buffer[{at}].row", "with a negative category", "numbers of values")
    if stream["faults"] is not None:
        count = len(stream["faults"]["columns"]["last"])
        need(count == p, "Stream.faults.columns", f"of {count}", f"{p}: features")
    known = list(stream["labels"])
    for at, evidence in enumerate(form["evidence"]):
        row = evidence["row"]
        need(row is None or len(row) == d, f"evidence[{at}].row", "of another size", f"{d}: dimensions")
        known.append(check_label(evidence["label"], known, parameters.unknown))


def _check_training(training: tuple[Any, ...], parameters: Parameters) -> None:
    capacity, seed, _, _, seen, rows, _, arrived = training[:8]
    need(capacity == parameters.max_training, "training[0]", capacity, f"{parameters.max_training}: max_training")
    need(seed == parameters.seed, "training[1]", seed, f"{parameters.seed}: seed")
    for j, (count, own) in enumerate(zip(seen, rows, strict=True)):
        need(len(own) == min(count, capacity), f"training[5][{j}]", f"of {len(own)}", f"{min(count, capacity)} rows")
        need(len(arrived[j]) == len(own), f"training[7][{j}]", f"of {len(arrived[j])}", f"{len(own)} positions")


def _check_stream(stream: Form, trained: Form, parameters: Parameters, *, frozen: bool) -> None:
    labels, of, chains = stream["labels"], trained["labels"], stream["chains"]
    need(labels[: len(of)] == of, "Stream.labels", labels[: len(of)], f"{of}, those of the trained model, first")
    for at, each in enumerate(labels):
        check_label(each, labels[:at] or labels, parameters.unknown)
    prior = trained["draws"][0]["prior"]
    for number, chain in enumerate(chains):
        check_counts(chain["known"], trained["references"], f"Stream.chains[{number}].known")
        for name in ("covariance", "n_features"):
            found, where = chain["known"]["prior"][name], f"Stream.chains[{number}].known.prior.{name}"
            need(found == prior[name], where, found, f"{prior[name]}, as in training")
    right = not frozen or len(chains) == parameters.chains
    need(right, "Stream.chains", f"of {len(chains)}", f"{parameters.chains}: chains")
    _check_arrival(stream["arrival"], trained)
    waiting, most = stream["waiting"]["decisions"], parameters.decision_delay
    need(len(waiting) <= most, "Waiting.decisions", f"of {len(waiting)}", f"{most} at most: decision_delay")
    names = {*labels, unknown_label(parameters.unknown, labels)}
    for at, decision in enumerate(waiting):
        label = decision["label"]
        need(label in names, f"Waiting.decisions[{at}].label", label, f"one of {list(names)[:5]}")
    if trained["references"] is not None and stream["references"] is not None:
        need(len(stream["references"]["rows"]), "Stream.references", "empty", "a reference at least")


def _check_arrival(arrival: Form | None, trained: Form) -> None:
    """Check that the order of arrival is that of the trained classes."""
    order = trained["order"]
    need((arrival is None) == (order is None), "Stream.arrival", "there alone", "beside TrainedModel.order")
    if arrival is None or order is None:
        return
    count, expected = len(arrival["usual"]), len(trained["labels"])
    need(count == expected, "Stream.arrival", f"of {count} classes", f"{expected}: TrainedModel.labels")
    if order["process"] is not None:
        need(arrival["process"] is not None, "Stream.arrival.process", None, "there: training is dependent")
        need(arrival["fitted"] < 0, "Stream.arrival.fitted", arrival["fitted"], "-1: in training")
    elif arrival["process"] is not None:
        need(arrival["fitted"] >= 0, "Stream.arrival.fitted", -1, "a position: training is independent")
