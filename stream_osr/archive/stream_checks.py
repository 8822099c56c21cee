"""What the parts of a stream have to be beside each other: tables, guests, lives, what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stream_osr.archive.derived import check_densities, check_dishes, check_statistics, factor, prior_of
from stream_osr.archive.form import Form, in_memory
from stream_osr.archive.needs import ROUNDING, ascending, check_same, in_range, need, need_different
from stream_osr.archive.records import RECORDS
from stream_osr.discovery.life import RECENT
from stream_osr.discovery.reservoir import LEAST_ROOM, priority
from stream_osr.model.known import N_RANKS
from stream_osr.model.prior import FULL


def _state(form: Form) -> None:
    """Check tables and guests; what the known classes say of them comes with the chain."""
    window, books, seqs = form["window"], form["franchise"], form["window_seq"]
    tables = len(books["table_dish"])
    above = np.flatnonzero(window["table"] >= tables)
    at = window["table"][above[:1]].tolist()
    need(
        not len(above), f"Guests.table{above[:1].tolist()}", at, f"a number below {tables}: there are {tables} tables"
    )
    need((window["weight"] > 0.0).all(), "Guests.weight", "0", "a positive number")
    need((window["rows"][:, -1] == 1.0).all(), "Guests.rows", "without a 1 at its end", "homogeneous rows")
    ascending(seqs, "StreamState.window_seq")
    need(not len(seqs) or seqs[-1] < form["seen"], "StreamState.window_seq", seqs[-1:], f"below seen, {form['seen']}")
    need(form["batches"] <= form["seen"], "StreamState.batches", form["batches"], f"at most seen, {form['seen']}")
    need_different(form["ids"].tolist(), "StreamState.ids")
    held = books["held"]
    need(np.isin(held, (0.0, 1.0)).all(), "Franchise.held", held.tolist(), "zeros and ones")
    live = np.bincount(window["table"], minlength=tables)
    check_same(books["table_live"], live, "Franchise.table_live", "by the guests' tables", 0.0)
    mass = books["table_residual"] + np.bincount(window["table"], window["weight"], minlength=tables)
    check_same(books["table_mass"], mass, "Franchise.table_mass", "by the guests' weights")
    need((books["table_mass"] > 0.0).all(), "Franchise.table_mass", "0", "a positive number")
    dishes = len(books["menu"])
    seated = np.bincount(books["table_dish"], books["table_mass"], minlength=dishes)
    check_same(books["seated"][0], seated, "Franchise.seated[0]", "by the tables")
    total = np.maximum(books["menu"], held).sum(keepdims=True)
    check_same(books["total"], total, "Franchise.total", "by the menu")
    check_same(books["extent"], np.array([dishes, tables]), "Franchise.extent", "dishes and tables", 0.0)


def _chain(form: Form) -> None:
    known, state, aside = form["known"], form["state"], form["aside"]
    prior, books, n_classes = prior_of(known["prior"]), state["franchise"], len(known["size"])
    emerging = state["ids"]
    count = n_classes + len(emerging)
    need(
        len(books["menu"]) == count, "Franchise.menu", f"of {len(books['menu'])}", f"{count}: classes and subclasses"
    )
    check_densities(form["frozen"], in_memory(known, RECORDS, {}), "Chain.frozen")
    served = np.bincount(books["table_dish"], minlength=count).astype(float)
    served[:n_classes] += form["frozen"]["menu"]
    check_same(books["menu"], served, "Franchise.menu", "by the tables and the known classes")
    need((books["held"][:n_classes] == 1.0).all(), "Franchise.held", "0 for a known class", "1: it stays")
    off = np.flatnonzero(np.maximum(books["menu"], books["held"]) == 0.0)
    need(not len(off), f"Franchise.menu{off[:1].tolist()}", 0.0, "a table, or held")
    check_dishes(state["dishes"], prior, "StreamState.dishes")
    _without_window(state, prior, n_classes)
    check_statistics(aside["statistics"], prior, "Aside.statistics")
    ids = [*known["ids"].tolist(), *emerging.tolist(), *aside["ids"].tolist()]
    need_different(ids, "the identities of a chain")
    need(
        max(ids) < state["next_id"], "StreamState.next_id", state["next_id"], f"more than {max(ids)}, which is given"
    )
    lives = form["life"]["subclasses"]
    need(
        max(lives, default=-1) < state["next_id"], "Lifecycle.subclasses", max(lives, default=-1), "given identities"
    )
    lacking = [key for key in aside["ids"].tolist() if key not in lives]
    need(not lacking, "Lifecycle.subclasses", f"without {lacking[:3]}", "the life of each that was set aside")
    for key, life in lives.items():
        _life(life, state["seen"], f"Lifecycle.subclasses[{key}]", prior.n_features)
    if form["guard"] is not None:
        in_range(form["guard"]["ids"], state["next_id"], "Guard.ids")
        in_range(form["guard"]["owner"], n_classes, "Guard.owner")


def _without_window(state: Form, prior: Any, n_classes: int) -> None:
    """Each emerging subclass has the guests of the window in it: without them it is still one."""
    window, dishes = state["window"], state["dishes"]
    slots = state["franchise"]["table_dish"][window["table"]] - n_classes
    guests = np.bincount(slots[slots >= 0], minlength=len(dishes["size"]))
    few = np.flatnonzero(guests > dishes["size"])
    need(not len(few), f"StreamState.dishes.size{few[:1].tolist()}", dishes["size"][few], "its guests in the window")
    for k in np.flatnonzero(guests) if prior.covariance == FULL else ():
        rows, matrix = window["rows"][slots == k], dishes["matrix"][k]
        rest = matrix - rows.T @ rows
        factor(rest + np.diag(np.diag(matrix)) * ROUNDING, f"StreamState.dishes.matrix[{k}] without its guests")


def _life(life: Form, seen: int, where: str, d: int) -> None:
    first, last, recent = life["first"]["seq"], life["last"]["seq"], life["recent"]
    need(first <= last < max(seen, 1), f"{where}.last.seq", last, f"from the first, {first}, to seen, {seen}")
    need(len(recent) <= RECENT, f"{where}.recent", f"of {len(recent)}", f"{RECENT} at most")
    seqs = [member["moment"]["seq"] for member in recent]
    need(seqs == sorted(seqs), f"{where}.recent", f"at {seqs}", "members in their order")
    for member in recent:
        seq, batch = member["moment"]["seq"], member["batch"]
        need(
            batch <= seq <= last,
            f"{where}.recent",
            f"at {seq} of batch {batch}",
            f"up to {last}, not before its batch",
        )
    need(not life["dormant"] or life["emerged"], f"{where}.emerged", False, "true: it is dormant")
    kept = life["kept"]
    if kept is not None:
        width = kept["rows"].shape[1]
        need(width == d or not len(kept["seq"]), f"{where}.kept.rows", f"of {width} columns", f"{d}")


def _reservoir(form: Form) -> None:
    seq, rows = form["seq"], form["rows"]
    room = max(LEAST_ROOM, rows.shape[1])
    need(len(seq) <= room, "Reservoir.seq", f"of {len(seq)}", f"{room} at most")
    need_different(seq.tolist(), "Reservoir.seq")
    need((form["priority"] == priority(seq)).all(), "Reservoir.priority", "another", "that of the positions")
    need((np.diff(form["priority"].astype(float)) >= 0.0).all(), "Reservoir.priority", "not ascending", "ascending")


def _guard(form: Form) -> None:
    books, shares = form["books"], form["shares"]
    cells, classes = len(books["seen"]), len(books["votes"])
    count = classes + len(form["ids"]) + 1
    need(cells == count, "Guard.books.seen", f"of {cells} cells", f"{count}: classes, subclasses, and what is new")
    width = shares["owner"].shape[1]
    need(width == count - classes, "Guard.shares.owner", f"of {width} columns", f"{count - classes}")
    known = [key for key in form["ids"].tolist() if key >= 0]
    need_different(known, "Guard.ids")
    check_same(shares["classes"].sum(keepdims=True), np.ones(1), "Guard.shares.classes, summed up", "as shares do")
    check_same(shares["owner"].sum(axis=0), np.ones(width), "Guard.shares.owner, summed up", "as shares do")
    check_same(shares["known"][:classes], np.ones_like(shares["known"][:classes]), "Guard.shares.known", "known ones")


def _waiting(form: Form) -> None:
    seqs = [decision["seq"] for decision in form["decisions"]]
    need(
        seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True,
        "Waiting.decisions",
        seqs,
        "without a gap",
    )
    check_same(
        form["probabilities"].sum(axis=1), np.ones(len(seqs)), "Waiting.probabilities, summed up", "as they do"
    )


def _past(form: Form) -> None:
    need(len(form["keys"]), "Past.keys", "empty", "an instance at least")


def _decision(form: Form) -> None:
    """Compare the parts of a decision."""
    shares = form["probabilities"]
    total = np.array([sum(shares.values())])
    check_same(total, np.ones(1), "Decision.probabilities, summed up", "as probabilities do")
    for name in ("label", "first_label"):
        need(form[name] in shares, f"Decision.{name}", repr(form[name]), f"one of {list(shares)[:5]}")
    alike = isinstance(form["nearest_class"], str) == isinstance(form["label"], str)
    need(alike, "Decision.nearest_class", repr(form["nearest_class"]), f"one like {form['label']!r}")
    last = list(shares.values())[-1:]
    check_same(np.array([form["p_unknown"]]), np.array(last), "Decision.p_unknown", "as in its probabilities")
    own = np.array([shares[form["label"]]])
    check_same(np.array([form["probability"]]), own, "Decision.probability", "as in its probabilities")


def _stream(form: Form) -> None:
    chains, labels, waiting, past = form["chains"], form["labels"], form["waiting"], form["past"]
    need(chains, "Stream.chains", "empty", "a chain at least")
    need_different(labels, "Stream.labels")
    first = chains[0]["state"]
    seen, start = first["seen"], first["seen"] - len(waiting["decisions"])
    for number, chain in enumerate(chains):
        state, where = chain["state"], f"Stream.chains[{number}]"
        for name in ("seen", "batches"):
            need(state[name] == first[name], f"{where}.state.{name}", state[name], f"{first[name]}, as in the first")
        same = np.array_equal(state["window_seq"], first["window_seq"])
        need(same, f"{where}.state.window_seq", "another", "that of the first chain")
        same = np.array_equal(state["window"]["rows"], first["window"]["rows"])
        need(same, f"{where}.state.window.rows", "others", "those of the first chain")
        need(
            number == 0 or not len(chain["aside"]["ids"]),
            f"{where}.aside.ids",
            "there",
            "none beside the first chain",
        )
    if waiting["decisions"]:
        begin = waiting["decisions"][0]["seq"]
        need(begin == start, "Waiting.decisions[0].seq", begin, f"{start}: seen without those that wait")
    need(sum(form["decided"]) == start, "Stream.decided", f"{sum(form['decided'])} together", f"{start}")
    in_range(waiting["responsible"], len(chains[0]["known"]["ids"]), "Waiting.responsible")
    _remembered(past, first)
    for name, chunk_ids in (("subclass", waiting["subclass"]), *(("past", chunk["subclass"][0]) for chunk in past)):
        in_range(chunk_ids, first["next_id"], f"Stream.{name} identities")
    numbers = [action["number"] for action in form["actions"]]
    need(numbers == sorted(numbers), "Stream.actions", f"numbered {numbers}", "in the order of asking")
    for action in form["actions"]:
        _action(action, chains, labels)
    references = form["references"]
    if references is not None:
        in_range(references["group"], len(labels), "Stream.references.group")
    for name in ("called", "following"):
        part = form[name]
        if part is not None:
            count = len(part["asked"] if name == "called" else part["weight"])
            need(count <= len(labels) or name == "called", f"Stream.{name}", f"of {count} classes", f"{len(labels)}")
    need(form["telling"]["seen"] <= seen, "Telling.seen", form["telling"]["seen"], f"at most {seen}")


def _remembered(past: Sequence[Form], state: Form) -> None:
    """Remembered batches follow each other up to the last instance; who is in the window is the same there."""
    rows = dict(zip(state["window_seq"].tolist(), state["window"]["rows"], strict=True))
    for number, chunk in enumerate(past):
        end = chunk["seq"] + len(chunk["keys"])
        following = past[number + 1]["seq"] if number + 1 < len(past) else state["seen"]
        need(end == following, f"Stream.past[{number}]", f"up to {end}", f"up to {following}: no gap to what follows")
        for place, row in enumerate(chunk["rows"]):
            other = rows.get(chunk["seq"] + place)
            same = other is None or np.array_equal(other[:-1], row)
            need(same, f"Stream.past[{number}].rows[{place}]", "another", "the row that is in the window")


def _action(action: Form, all_chains: Sequence[Form], labels: Sequence[Any]) -> None:
    name, chains, first = action.name, len(all_chains), all_chains[0]["state"]
    d = all_chains[0]["known"]["prior"]["n_features"]
    count = len(action["into"] if name == "Labelling" else action["subclasses"])
    need(count == chains, f"{name} in chains", count, str(chains))
    if name == "Promotion":
        need(action["label"] in labels, "Promotion.label", repr(action["label"]), "one of Stream.labels")
        for number, ranks in enumerate(action["ranks"]):
            need(len(ranks) in (0, N_RANKS), f"Promotion.ranks[{number}]", f"of {len(ranks)}", f"0 or {N_RANKS}")
    if name != "Labelling":
        return
    alike = all(isinstance(each, str) == isinstance(action["label"], str) for each in labels)
    need(alike, "Labelling.label", repr(action["label"]), f"one like {labels[0]!r}")
    need(len(action["row"]) == d, "Labelling.row", f"of {len(action['row'])}", str(d))
    earlier = 0 if action["seq"] < 0 else chains
    for field in ("subclass", "seats", "classes"):
        need(len(action[field]) == earlier, f"Labelling.{field}", f"of {len(action[field])}", str(earlier))
    for field in ("seq", "seen"):
        need(action[field] <= first["seen"], f"Labelling.{field}", action[field], f"at most {first['seen']}: seen")
    shift = action["shift"]
    need(shift is None or len(shift) == d, "Labelling.shift", "of another size", str(d))


def _called(form: Form) -> None:
    """Check that no more references were called something than were asked."""
    for j, asked in enumerate(form["asked"].tolist()):
        told = float(form["right"][j] + form["unknown"][j])
        need(told <= asked + ROUNDING * (1.0 + asked), f"Called.unknown[{j}]", f"{told:g}, with right", f"{asked:g}")


CHECKS: dict[str, Callable[[Form], None]] = {
    "StreamState": _state,
    "Chain": _chain,
    "Reservoir": _reservoir,
    "Guard": _guard,
    "Waiting": _waiting,
    "Past": _past,
    "Decision": _decision,
    "Called": _called,
    "Stream": _stream,
}
"""What is checked of a record once its fields are, by its name."""
