"""What the fields of a trained model have to be beside each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_osr.archive.derived import check_definite, check_dishes, check_prior, check_rows, prior_of
from stream_osr.archive.form import Form
from stream_osr.archive.needs import ROUNDING, check_same, each, in_range, need


def _location(form: Form) -> None:
    mean, factor = form["mean"], form["factor"]
    if form["freedom"] == 0.0:
        need(not len(mean), "Location.mean", f"of {len(mean)}", "nothing: freedom is 0")
    else:
        need(len(mean) == len(factor), "Location.mean", f"of {len(mean)}", f"{len(factor)}, as Location.factor")
    need((np.diag(factor) > 0.0).all(), "Location.factor", "without a positive diagonal", "a Cholesky factor")
    need(not np.triu(factor, 1).any(), "Location.factor", "not lower triangular", "a Cholesky factor")


def _flags(form: Form) -> None:
    spans, sizes, low, high = (form[name] for name in ("spans", "sizes", "low", "high"))
    need(len(spans) == len(sizes), "Flags.spans", f"of {len(spans)}", f"{len(sizes)}: Flags.sizes")
    members, bounds = int(spans.sum()), int((spans * sizes).sum())
    need(len(form["members"]) == members, "Flags.members", f"of {len(form['members'])}", f"{members}: Flags.spans")
    for name, own in (("low", low), ("high", high)):
        need(len(own) == bounds, f"Flags.{name}", f"of {len(own)}", f"{bounds}: Flags.spans and sizes")
    each(low <= high, low, "Flags.low", "Flags.high at most")


def _space(form: Form) -> None:
    """Forward and backward are inverse to each other, on the whitened side."""
    (p, d), nothing = form["forward"].shape, np.zeros(0, np.int64)
    columns, places = (nothing if form[name] is None else form[name] for name in ("columns", "places"))
    members, sizes = (nothing if form["flags"] is None else form["flags"][name] for name in ("members", "sizes"))
    apart = np.concatenate([columns, members])
    least, most = (0, p - len(apart)) if len(apart) else (1, p)
    need(least <= d <= most, "Space.forward", f"of {d} coordinates", f"{least} to {most}")
    count = len(columns) + len(sizes)
    need(len(places) == count, "Space.places", f"of {len(places)}", f"{count}: Space.columns and Flags.sizes")
    of_flags = places[len(columns) :].tolist()
    need(of_flags == (sizes + 2).tolist(), "Space.places", of_flags, "two more than Flags.sizes, in the end")
    if len(apart):
        in_range(apart, p, "Space.columns and Flags.members")
        need(len(np.unique(apart)) == len(apart), "Space.columns and Flags.members", "not distinct", "each once")
        for name in ("fill", "center", "constant"):
            each(~form[name][apart].astype(bool), form[name][apart], f"Space.{name}", "0 for a category")
        for name, own in (("forward", form["forward"][apart]), ("backward", form["backward"][:, apart])):
            each(own == 0.0, own, f"Space.{name}", "0 for a category")
    in_range(nothing if form["open"] is None else form["open"], len(columns), "Space.open")
    bent = nothing if form["powers"] is None else form["powers"]["columns"]
    in_range(bent, p, "Powers.columns")
    need(not len(np.intersect1d(bent, apart)), "Powers.columns", "of a category", "numbers alone")
    product = form["backward"] @ form["forward"]
    check_same(product, np.eye(d), "Space.backward @ forward", "one inverts the other", 1e-5)


def _terms(form: Form) -> None:
    first, last = form["first"], len(form["head"])
    need(first[0] == 0 and first[-1] == last, "Terms.first", first.tolist(), f"0 to {last}")


def _known(form: Form) -> None:
    prior, seated, size, broad = prior_of(form["prior"]), form["seated"], form["size"], form["broad"]
    check_dishes(form["dishes"], prior, "Known.dishes")
    in_dishes = form["dishes"]["size"]
    each(in_dishes <= seated.sum(axis=0), in_dishes, "Known.dishes.size", "at most as many as are seated")
    each(size >= seated.sum(axis=1), size, "Known.size", "as many as are seated, or more")
    served = (seated == 0.0) | (form["tables"].sum(axis=0) > 0.0)
    each(served, form["tables"], "Known.tables", "a table for who is seated")
    need(size.sum() > 0.0, "Known.size", "0 for every class", "an instance at least")
    need(len(broad) <= len(size), "Known.broad", f"of {len(broad)}", f"{len(size)} at most")
    for j, shape in enumerate(broad):
        need(shape is None or shape["freedom"] > 0.0, f"Known.broad[{j}].freedom", 0.0, "a positive number")
        places = 0 if shape is None or shape["values"] is None else len(shape["values"])
        right = shape is None or places == len(prior.pseudo)
        need(right, f"Known.broad[{j}].values", f"of {places}", f"{len(prior.pseudo)}: Prior.pseudo")
    need(form["location"]["values"] is None, "Known.location.values", "there", "nothing: they are the base measure's")
    width = len(form["location"]["mean"])
    expected = prior.n_features if form["location"]["freedom"] else 0
    need(width == expected, "Known.location.mean", f"of {width}", f"{expected}")
    unknown = set(form["named"]) - set(form["ids"].tolist())
    need(not unknown, "Known.named", sorted(unknown), "identities of its subclasses")


def _references(form: Form) -> None:
    density, group = form["log_density"], form["group"]
    need(not form["earlier"], "References.earlier", True, "False")
    in_range(group, density[0].shape[1], "References.group")
    for number, own in enumerate(density):
        own = own[np.arange(len(group)), group]
        each(np.isfinite(own), own, f"References.log_density[{number}], own class", "a finite number")


def _process(form: Form) -> None:
    axes = form["axes"]
    check_same(axes.T @ axes, np.eye(len(axes)), "Process.axes, multiplied", "orthonormal directions")


def _pairs(form: Form) -> None:
    """Check sums of products with themselves and with each other."""
    products, (count, total, square) = form["products"], form["correlation"].T
    each(np.diagonal(products[0]) >= 0.0, np.diagonal(products[0]), "Pairs.products[0]", "a sum of squares")
    check_same(products, products.transpose(0, 2, 1), "Pairs.products", "symmetric")
    each(count >= 0.0, count, "Pairs.correlation, first column", "a number of pairs")
    fits = total**2 <= count * square * (1.0 + ROUNDING) + ROUNDING
    each(fits, total, "Pairs.correlation, second column", "a sum that the squares allow")


def _residuals(form: Form) -> None:
    for j, own in enumerate(form["whitener"]):
        check_definite(own, f"Residuals.whitener[{j}]")
    found = np.linalg.slogdet(form["whitener"])[1]
    check_same(form["log_volume"], found, "Residuals.log_volume", "by the whiteners")


def _report(form: Form) -> None:
    if form["recall_interval"] is not None:
        low, high = form["recall_interval"]
        need(low <= high, "TrainingReport.recall_interval", (low, high), "the lower bound first")
    need(set(form["instances"]) == set(form["subclasses"]), "TrainingReport.subclasses", "of others", "the classes")


def check_counts(known: Form, references: Form | None, where: str) -> None:
    """Check that all who are seated count, but where statistics are tempered."""
    if references is None or not references["tempered"]:
        size, seated = known["dishes"]["size"].astype(float), known["seated"].sum(axis=0)
        check_same(size, seated, f"{where}.dishes.size", "by Known.seated", 0.0)


def _trained(form: Form) -> None:
    draws, references, report = form["draws"], form["references"], form["report"]
    for number, known in enumerate(draws):
        check_counts(known, references, f"TrainedModel.draws[{number}]")
    for number, known in enumerate(draws):
        same = known["prior"]["covariance"] == draws[0]["prior"]["covariance"]
        need(same, f"TrainedModel.draws[{number}].prior.covariance", "another", "that of the first")
        check_same(known["size"], draws[0]["size"], f"TrainedModel.draws[{number}].size", "as in the first", 0.0)
    prior, space = prior_of(draws[0]["prior"]), form["space"]
    needed = [len(values) + 2 for values in form["categories"]]
    places = [] if space["places"] is None else space["places"].tolist()
    need(needed == places, "TrainedModel.categories", f"of {needed} places", f"{places}: Space.places")
    for number, known in enumerate(draws):
        first = prior_of(known["prior"]).first.tolist()
        own = prior_of(known["prior"]).pseudo
        right = first == (np.cumsum(places) - places).tolist() and len(own) == sum(places)
        need(right, f"TrainedModel.draws[{number}].prior.first", first, "the places of Space")
    if references is not None:
        check_rows(references["rows"], prior, "TrainedModel.references.rows")
        dependent = form["order"] is not None and form["order"]["process"] is not None
        where, gain = "TrainedModel.references.gain", references["gain"]
        need((gain is not None) == dependent, where, "there" if dependent is False else None, "beside Order.process")
        effective, most = references["effective"], max(report["instances"].values()) if dependent else 0.0
        fits = (effective > 0.0) == dependent and effective <= most
        need(fits, "TrainedModel.references.effective", effective, f"more than 0 to {most}" if dependent else "0")
    same = tuple(report["instances"]) == form["labels"]
    need(same, "TrainingReport.instances", "of others", "the labels, in order")
    sizes = np.array(list(report["instances"].values()), dtype=float)
    check_same(sizes, draws[0]["size"], "TrainingReport.instances", "as in the known classes", 0.0)
    kept = 0 if references is None else len(references["group"])
    need(report["references"] == kept, "TrainingReport.references", report["references"], f"{kept}, as are kept")
    count = len(draws) if references is None else len(references["log_density"])
    need(count == len(draws), "TrainedModel.references.log_density", f"of {count}", f"{len(draws)}: draws")


CHECKS: dict[str, Callable[[Form], None]] = {
    "Prior": check_prior,
    "Location": _location,
    "Flags": _flags,
    "Space": _space,
    "Background": lambda form: check_definite(form["covariance"], "Background.covariance"),
    "Terms": _terms,
    "Known": _known,
    "References": _references,
    "Process": _process,
    "Pairs": _pairs,
    "Residuals": _residuals,
    "TrainingReport": _report,
    "TrainedModel": _trained,
}
"""What is checked of a record once its fields are, by its name."""
