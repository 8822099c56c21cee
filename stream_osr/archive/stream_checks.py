"""What the parts of a stream have to be beside each other: tables, guests, lives, what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stream_osr.archive.derived import (
    check_definite,
    check_densities,
    check_dishes,
    check_rows,
    check_statistics,
    prior_of,
)
from stream_osr.archive.form import Form, in_memory
from stream_osr.archive.needs import ROUNDING, check_same, distinct, each, in_range, need
from stream_osr.archive.records import RECORDS
from stream_osr.discovery.life import RECENT
from stream_osr.discovery.reservoir import LEAST_ROOM, priority
from stream_osr.model.dependence import LAGS
from stream_osr.model.prior import FULL, Prior, width_of


def _state(form: Form) -> None:
    """Check tables and guests; what the known classes say of them comes with the chain."""
    window, books, seen = form["window"], form["franchise"], form["seen"]
    dish, mass, dishes = books["table_dish"], books["table_mass"], len(books["menu"])
    tables = len(dish)
    in_range(window["table"], tables, "Guests.table")
    need((window["rows"][:, -1] == 1.0).all(), "Guests.rows", "without a 1 at its end", "homogeneous rows")
    in_range(form["window_seq"], seen, "StreamState.window_seq")
    need(form["batches"] <= seen, "StreamState.batches", form["batches"], f"at most seen, {seen}")
    live = np.bincount(window["table"], minlength=tables)
    check_same(books["table_live"], live, "Franchise.table_live", "by the guests' tables", 0.0)
    weight = books["table_residual"] + np.bincount(window["table"], window["weight"], minlength=tables)
    check_same(mass, weight, "Franchise.table_mass", "by the guests' weights")
    seated = np.bincount(dish, mass, minlength=dishes)
    check_same(books["seated"][0], seated, "Franchise.seated[0]", "by the tables")
    total = np.maximum(books["menu"], books["held"]).sum(keepdims=True)
    check_same(books["total"], total, "Franchise.total", "by the menu")
    check_same(books["extent"], np.array([dishes, tables]), "Franchise.extent", "dishes and tables", 0.0)


def _chain(form: Form) -> None:
    known, state, aside, guard = form["known"], form["state"], form["aside"], form["guard"]
    books, n_classes, emerging, given = state["franchise"], len(known["size"]), state["ids"], state["next_id"]
    prior, menu, count = prior_of(known["prior"]), books["menu"], n_classes + len(emerging)
    need(len(menu) == count, "Franchise.menu", f"of {len(menu)}", f"{count}: classes and subclasses")
    check_densities(form["frozen"], in_memory(known, RECORDS, {}), "Chain.frozen")
    served = np.bincount(books["table_dish"], minlength=count).astype(float)
    served[:n_classes] += form["frozen"]["menu"]
    check_same(menu, served, "Franchise.menu", "by the tables and the known classes")
    need((books["held"][:n_classes] == 1.0).all(), "Franchise.held", "0 for a known class", "1: it stays")
    each((menu > 0.0) | (books["held"] > 0.0), menu, "Franchise.menu", "a table, or held")
    check_dishes(state["dishes"], prior, "StreamState.dishes")
    check_rows(state["window"]["rows"], prior, "Guests.rows")
    _without_window(state, prior, n_classes)
    check_statistics(aside["statistics"], prior, "Aside.statistics")
    lives, ids = form["life"]["subclasses"], np.concatenate([known["ids"], emerging, aside["ids"]])
    distinct(ids, "the identities of a chain")
    need(ids.max() < given, "StreamState.next_id", given, f"more than {ids.max()}, which is given")
    need(max(lives, default=-1) < given, "Lifecycle.subclasses", max(lives, default=-1), "given identities")
    lacking = [key for key in aside["ids"].tolist() if key not in lives]
    need(not lacking, "Lifecycle.subclasses", f"without {lacking[:3]}", "the life of each that was set aside")
    for key, life in lives.items():
        _life(life, state["seen"], f"Lifecycle.subclasses[{key}]", prior)
    if guard is not None:
        in_range(guard["ids"], given, "Guard.ids")
        in_range(guard["owner"], n_classes, "Guard.owner")


def _without_window(state: Form, prior: Prior, n_classes: int) -> None:
    """Each emerging subclass has the guests of the window in it: without them it is still one."""
    window, dishes = state["window"], state["dishes"]
    slots = state["franchise"]["table_dish"][window["table"]] - n_classes
    guests = np.bincount(slots[slots >= 0], minlength=len(dishes["size"]))
    each(guests <= dishes["size"], dishes["size"], "StreamState.dishes.size", "its guests in the window")
    for k in np.flatnonzero(guests) if prior.covariance == FULL else ():
        rows, matrix = window["rows"][slots == k, len(prior.first) :], dishes["matrix"][k]
        rest = matrix - rows.T @ rows + np.diag(np.diag(matrix)) * ROUNDING
        check_definite(rest, f"StreamState.dishes.matrix[{k}] without its guests")


def _life(life: Form, seen: int, where: str, prior: Prior) -> None:
    first, last, recent, kept = life["first"]["seq"], life["last"]["seq"], life["recent"], life["kept"]
    need(first <= last < max(seen, 1), f"{where}.last.seq", last, f"from the first, {first}, to seen, {seen}")
    need(len(recent) <= RECENT, f"{where}.recent", f"of {len(recent)}", f"{RECENT} at most")
    seqs = [member["moment"]["seq"] for member in recent]
    need(seqs == sorted(seqs), f"{where}.recent", f"at {seqs}", "members in their order")
    for seq, batch in zip(seqs, [member["batch"] for member in recent], strict=True):
        expected = f"up to {last}, not before its batch"
        need(batch <= seq <= last, f"{where}.recent", f"at {seq} of batch {batch}", expected)
    need(not life["dormant"] or life["emerged"], f"{where}.emerged", False, "true: it is dormant")
    if kept is not None and len(kept["seq"]):
        need(kept["rows"].shape[1] == width_of(prior), f"{where}.kept.rows", "of another width", f"{width_of(prior)}")
        check_rows(kept["rows"], prior, f"{where}.kept.rows")


def _reservoir(form: Form) -> None:
    seq, room = form["seq"], max(LEAST_ROOM, form["rows"].shape[1])
    need(len(seq) <= room, "Reservoir.seq", f"of {len(seq)}", f"{room} at most")
    need((form["priority"] == priority(seq)).all(), "Reservoir.priority", "another", "that of the positions")


def _guard(form: Form) -> None:
    books, shares, ids = form["books"], form["shares"], form["ids"]
    cells, classes = len(books["seen"]), len(books["votes"])
    count, known = classes + len(ids) + 1, shares["known"][:classes]
    need(cells == count, "Guard.books.seen", f"of {cells} cells", f"{count}: classes, subclasses, and what is new")
    distinct(ids[ids >= 0], "Guard.ids")
    check_same(shares["classes"].sum(keepdims=True), np.ones(1), "Guard.shares.classes, summed up", "as shares do")
    owners = shares["owner"].sum(axis=0)
    check_same(owners, np.ones_like(owners), "Guard.shares.owner, summed up", "as shares do")
    if not form["dependent"]:  # else an instance of a known class's cell may be new all the same
        check_same(known, np.ones_like(known), "Guard.shares.known", "known ones")


def _waiting(form: Form) -> None:
    seqs, sums = [decision["seq"] for decision in form["decisions"]], form["probabilities"].sum(axis=1)
    begin = seqs[0] if seqs else 0
    need(seqs == list(range(begin, begin + len(seqs))), "Waiting.decisions", seqs, "without a gap")
    check_same(sums, np.ones_like(sums), "Waiting.probabilities, summed up", "as they do")


def _decision(form: Form) -> None:
    """Compare the parts of a decision."""
    shares, label = form["probabilities"], form["label"]
    for name in ("label", "first_label"):
        need(form[name] in shares, f"Decision.{name}", repr(form[name]), f"one of {list(shares)[:5]}")
    alike = isinstance(form["nearest_class"], str) == isinstance(label, str)
    need(alike, "Decision.nearest_class", repr(form["nearest_class"]), f"one like {label!r}")
    total = np.array([sum(shares.values())])
    check_same(total, np.ones(1), "Decision.probabilities, summed up", "as probabilities do")
    for name, share in (("p_unknown", list(shares.values())[-1]), ("probability", shares[label])):
        check_same(np.array([form[name]]), np.array([share]), f"Decision.{name}", "as in its probabilities")


def _stream(form: Form) -> None:
    chains, labels, waiting, past = form["chains"], form["labels"], form["waiting"], form["past"]
    first, decisions, telling = chains[0]["state"], waiting["decisions"], form["telling"]
    seen, start = first["seen"], first["seen"] - len(decisions)
    for number, chain in enumerate(chains):
        state, where = chain["state"], f"Stream.chains[{number}]"
        for name in ("seen", "batches"):
            need(state[name] == first[name], f"{where}.state.{name}", state[name], f"{first[name]}, as in the first")
        same = np.array_equal(state["window_seq"], first["window_seq"])
        need(same, f"{where}.state.window_seq", "another", "that of the first chain")
        same = np.array_equal(state["window"]["rows"], first["window"]["rows"])
        need(same, f"{where}.state.window.rows", "others", "those of the first chain")
        alone = number == 0 or not len(chain["aside"]["ids"])
        need(alone, f"{where}.aside.ids", "there", "none beside the first chain")
    begin = decisions[0]["seq"] if decisions else start
    need(begin == start, "Waiting.decisions[0].seq", begin, f"{start}: seen without those that wait")
    need(sum(form["decided"]) == start, "Stream.decided", f"{sum(form['decided'])} together", f"{start}")
    in_range(waiting["responsible"], len(chains[0]["known"]["ids"]), "Waiting.responsible")
    _remembered(past, first)
    for name, ids in (("subclass", waiting["subclass"]), *(("past", chunk["subclass"][0]) for chunk in past)):
        in_range(ids, first["next_id"], f"Stream.{name} identities")
    numbers = [action["number"] for action in form["actions"]]
    need(numbers == sorted(numbers), "Stream.actions", f"numbered {numbers}", "in the order of asking")
    for action in form["actions"]:
        _action(action, chains, labels)
    prior = prior_of(chains[0]["known"]["prior"])
    for chunk in past:
        check_rows(chunk["rows"], prior, "Past.rows")
    if form["references"] is not None:
        check_rows(form["references"]["rows"], prior, "Stream.references.rows")
        in_range(form["references"]["group"], len(labels), "Stream.references.group")
    count = 0 if form["following"] is None else len(form["following"]["weight"])
    need(count <= len(labels), "Stream.following", f"of {count} classes", f"{len(labels)}")
    if form["arrival"] is not None:
        _arrived(form["arrival"], seen)
    need(telling["seen"] <= seen, "Telling.seen", telling["seen"], f"at most {seen}")


def _remembered(past: Sequence[Form], state: Form) -> None:
    """Remembered batches follow each other up to the last instance; who is in the window is the same there."""
    rows = dict(zip(state["window_seq"].tolist(), state["window"]["rows"], strict=True))
    begins = [*(chunk["seq"] for chunk in past), state["seen"]]
    for number, chunk in enumerate(past):
        where, end, following = f"Stream.past[{number}]", chunk["seq"] + len(chunk["keys"]), begins[number + 1]
        need(end == following, where, f"up to {end}", f"up to {following}: no gap to what follows")
        for place, row in enumerate(chunk["rows"]):
            other = rows.get(chunk["seq"] + place)
            same = other is None or np.array_equal(other[:-1], row)
            need(same, f"{where}.rows[{place}]", "another", "the row that is in the window")


def _action(action: Form, all_chains: Sequence[Form], labels: Sequence[Any]) -> None:
    name, chains, seen = action.name, len(all_chains), all_chains[0]["state"]["seen"]
    prior = prior_of(all_chains[0]["known"]["prior"])
    d = width_of(prior)
    count = len(action["into"] if name == "Labelling" else action["subclasses"])
    need(count == chains, f"{name} in chains", count, str(chains))
    if name == "Promotion":
        need(action["label"] in labels, "Promotion.label", repr(action["label"]), "one of Stream.labels")
    if name != "Labelling":
        return
    alike = all(isinstance(label, str) == isinstance(action["label"], str) for label in labels)
    need(alike, "Labelling.label", repr(action["label"]), f"one like {labels[0]!r}")
    earlier, shift = 0 if action["seq"] < 0 else chains, d if action["shift"] is None else len(action["shift"])
    need(len(action["row"]) == d, "Labelling.row", f"of {len(action['row'])}", str(d))
    need(shift == d, "Labelling.shift", "of another size", str(d))
    check_rows(action["row"][None], prior, "Labelling.row")
    for field in ("subclass", "seats", "classes"):
        need(len(action[field]) == earlier, f"Labelling.{field}", f"of {len(action[field])}", str(earlier))
    for field in ("seq", "seen"):
        need(action[field] <= seen, f"Labelling.{field}", action[field], f"at most {seen}: seen")


def _arrival(form: Form) -> None:
    """Classes are tracked where neighbours are dependent, and only there."""
    dependent, typical, gain = form["process"] is not None, form["typical"], len(form["gain"])
    for name, there in (("tracked", form["tracked"] is not None), ("since", form["since"] >= 0)):
        need(there == dependent, f"Arrival.{name}", "there" if there else "not there", "beside Arrival.process")
    need(dependent or not gain, "Arrival.gain", f"of {gain}", "nothing: neighbours are independent")
    most = typical[:, 0] + ROUNDING
    each(typical[:, 1] <= most, typical[:, 1], "Arrival.typical[:, 1]", "at most the typical instances of the class")
    need(
        typical[:, 0].sum() <= form["lately"] + ROUNDING,
        "Arrival.lately",
        form["lately"],
        "the typical ones at least",
    )
    each(form["usual"][:, 0] >= 0.0, form["usual"][:, 0], "Arrival.usual, first column", "a number of instances")


def _arrived(form: Form, seen: int) -> None:
    at = form["at"]
    need(len(at) <= LAGS[-1], "Arrival.at", f"of {len(at)}", f"{LAGS[-1]} at most")
    expected = np.arange(seen - len(at), seen)
    need(np.array_equal(at, expected), "Arrival.at", at.tolist()[-3:], f"the latest positions up to {seen}: seen")
    for name in ("since", "fitted", "departed"):
        need(form[name] <= seen, f"Arrival.{name}", form[name], f"at most {seen}: seen")


def _called(form: Form) -> None:
    """Check that no more references were called something than were asked."""
    asked, told = form["asked"], form["right"] + form["unknown"]
    each(told <= asked + ROUNDING * (1.0 + asked), told, "Called.right and unknown", "no more than were asked")


CHECKS: dict[str, Callable[[Form], None]] = {
    "StreamState": _state,
    "Chain": _chain,
    "Reservoir": _reservoir,
    "Guard": _guard,
    "Waiting": _waiting,
    "Decision": _decision,
    "Called": _called,
    "Arrival": _arrival,
    "Stream": _stream,
}
"""What is checked of a record once its fields are, by its name."""
