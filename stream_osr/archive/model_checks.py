"""What the fields of a trained model have to be beside each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_osr.archive.derived import check_dishes, check_prior, factor, prior_of
from stream_osr.archive.form import Form
from stream_osr.archive.needs import ascending, check_same, counts, need, need_different


def _location(form: Form) -> None:
    if form["freedom"] == 0.0:
        need(not len(form["mean"]), "Location.mean", f"of {len(form['mean'])}", "nothing: freedom is 0")
        return
    need(len(form["mean"]), "Location.mean", "empty", "a centre: freedom is not 0")
    need((np.diag(form["factor"]) > 0.0).all(), "Location.factor", "without a positive diagonal", "a Cholesky factor")
    need(not np.triu(form["factor"], 1).any(), "Location.factor", "not lower triangular", "a Cholesky factor")


def _space(form: Form) -> None:
    """Forward and backward are inverse to each other, on the whitened side."""
    d = form["forward"].shape[1]
    need(0 < d <= len(form["fill"]), "Space.forward", f"of {d} coordinates", f"1 to {len(form['fill'])}")
    check_same(
        form["backward"] @ form["forward"], np.eye(d), "Space.backward @ forward", "one inverts the other", 1e-5
    )


def _background(form: Form) -> None:
    factor(form["covariance"], "Background.covariance")


def _terms(form: Form) -> None:
    first = form["first"]
    ascending(first, "Terms.first", strictly=False)
    need(first[0] == 0 and first[-1] == len(form["head"]), "Terms.first", first.tolist(), f"0 to {len(form['head'])}")


def _known(form: Form) -> None:
    prior, count = prior_of(form["prior"]), len(form["ids"])
    need(count and len(form["size"]), "Known.ids", "empty", "a subclass, and a class, at least")
    check_dishes(form["dishes"], prior, "Known.dishes")
    need_different(form["ids"].tolist(), "Known.ids")
    for name in ("seated", "tables", "size"):
        counts(form[name], f"Known.{name}")
    seated, size = form["seated"], form["size"]
    check_same(form["dishes"]["size"].astype(float), seated.sum(axis=0), "Known.dishes.size", "by Known.seated", 0.0)
    short = np.flatnonzero(size < seated.sum(axis=1))
    need(
        not len(short), f"Known.size{short[:1].tolist()}", size[short[:1]].tolist(), "as many as are seated, or more"
    )
    bare = np.argwhere((seated > 0.0) & (form["tables"].sum(axis=0) == 0.0))
    need(not len(bare), f"Known.tables of subclass {bare[:1, 1:].tolist()}", "none", "a table for who is seated")
    need(size.sum() > 0.0, "Known.size", "0 for every class", "an instance at least")
    for j, ranks in enumerate(form["ranks"]):
        ascending(np.maximum(ranks, -1e300), f"Known.ranks[{j}]", strictly=False)
    broad = form["broad"]
    need(len(broad) <= len(size), "Known.broad", f"of {len(broad)}", f"{len(size)} at most")
    for j, shape in enumerate(broad):
        need(shape is None or shape["freedom"] > 0.0, f"Known.broad[{j}].freedom", 0.0, "a positive number")
    width = len(form["location"]["mean"])
    need(width in (0, prior.n_features), "Known.location.mean", f"of {width}", f"{prior.n_features}")
    unknown = set(form["named"]) - set(form["ids"].tolist())
    need(not unknown, "Known.named", sorted(unknown), "identities of its subclasses")


def _references(form: Form) -> None:
    density, group = form["log_density"], form["group"]
    need(density, "References.log_density", "empty", "an array for each model")
    classes = density[0].shape[1]
    above = np.flatnonzero(group >= classes)
    need(
        not len(above),
        f"References.group{above[:1].tolist()}",
        group[above[:1]].tolist(),
        f"below {classes}: classes",
    )
    for number, each in enumerate(density):
        own = each[np.arange(len(group)), group]
        need(np.isfinite(own).all(), f"References.log_density[{number}]", "-inf in its own class", "a finite number")


def _report(form: Form) -> None:
    if form["recall_interval"] is not None:
        low, high = form["recall_interval"]
        need(low <= high, "TrainingReport.recall_interval", (low, high), "the lower bound first")
    need(set(form["instances"]) == set(form["subclasses"]), "TrainingReport.subclasses", "of others", "the classes")


def _trained(form: Form) -> None:
    need_different(form["names"], "TrainedModel.names")
    need_different(form["labels"], "TrainedModel.labels")
    draws, references = form["draws"], form["references"]
    need(draws, "TrainedModel.draws", "empty", "a model at least")
    for number, known in enumerate(draws):
        same = known["prior"]["covariance"] == draws[0]["prior"]["covariance"]
        need(same, f"TrainedModel.draws[{number}].prior.covariance", "another", "that of the first")
        check_same(known["size"], draws[0]["size"], f"TrainedModel.draws[{number}].size", "as in the first", 0.0)
    report = form["report"]
    need(
        tuple(report["instances"]) == form["labels"], "TrainingReport.instances", "of others", "the labels, in order"
    )
    sizes = np.array(list(report["instances"].values()), dtype=float)
    check_same(sizes, draws[0]["size"], "TrainingReport.instances", "as in the known classes", 0.0)
    kept = 0 if references is None else len(references["group"])
    need(report["references"] == kept, "TrainingReport.references", report["references"], f"{kept}, as are kept")
    if references is not None:
        count = len(references["log_density"])
        need(count == len(draws), "TrainedModel.references.log_density", f"of {count}", f"{len(draws)}: draws")


CHECKS: dict[str, Callable[[Form], None]] = {
    "Prior": check_prior,
    "Location": _location,
    "Space": _space,
    "Background": _background,
    "Terms": _terms,
    "Known": _known,
    "References": _references,
    "TrainingReport": _report,
    "TrainedModel": _trained,
}
"""What is checked of a record once its fields are, by its name."""
