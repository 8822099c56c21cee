"""Relations between the fields of a record: Python expressions of the fields by their names in archives.

They use the functions of ``checks.py``. The relations of a recognizer also have its arguments, ``p``.
"""

from __future__ import annotations

RELATIONS: dict[str, tuple[str, ...]] = {
    "recognizer": (
        "set(archived(Arguments())) <= set(arguments)",
        "all(getattr(p, name) is None or getattr(p, name) <= most for name, most in MOST.items())",
        "training is not None or trained is not None",
        "(trained is None) == (stream is None)",
        "trained is not None or not (buffer or evidence or decisions)",
        "training is None or (training[0] == p.max_training and training[1] == p.seed)",
        "training is None or all(len(rows) == min(seen, training[0]) "
        "for seen, rows in zip(training[4], training[5]))",
        "training is None or all(len(rows) == len(arrived) for rows, arrived in zip(training[5], training[7]))",
        "training is None or len(training) < 14 or all(len(rows) == len(groups) "
        "for rows, groups in zip(training[5], training[13]))",
        "stream is None or stream.labels[: len(trained.labels)] == trained.labels",
        "stream is None or may_be_labels(stream.labels, p.unknown)",
        "stream is None or all(counts_fit(chain.known, trained.references) for chain in stream.chains)",
        "stream is None or all(chain.known.prior.n_features == trained.draws[0].prior.n_features "
        "for chain in stream.chains)",
        "stream is None or len(stream.chains) == (p.chains if training is None else len(trained.draws))",
        "stream is None or (stream.arrival is None) == (trained.order is None)",
        "stream is None or stream.arrival is None or len(stream.arrival.usual) == len(trained.labels)",
        "stream is None or stream.arrival is None or trained.order.process is None or "
        "stream.arrival.process is not None",
        "stream is None or stream.arrival is None or trained.order.process is None or stream.arrival.fitted < 0",
        "stream is None or stream.arrival is None or trained.order.process or not stream.arrival.process or "
        "stream.arrival.fitted >= 0",
        "stream is None or len(stream.waiting.decisions) <= p.decision_delay",
        "stream is None or not p.decision_delay or all(np.array_equal("
        "chain.state.window_seq, stream.chains[0].state.window_seq) for chain in stream.chains)",
        "stream is None or {decision.label "
        "for decision in stream.waiting.decisions} <= {*stream.labels, unknown_label(p.unknown, stream.labels)}",
        "stream is None or trained.references is None or stream.references is None or len(stream.references.rows)",
        "trained is None or all(len(arrived.row) == len(trained.names) for arrived in buffer)",
        "trained is None or not any((arrived.row[array(trained.space.columns)] < 0).any() for arrived in buffer)",
        "stream is None or stream.faults is None or len(stream.faults.columns.last) == len(trained.names)",
        "stream is None or stream.frame is None or stream.frame.place.shape[1] == len(trained.names)",
        "stream is None or stream.frame is None or "
        "stream.frame.rows.shape[1] == width(trained.draws[0].prior) + len(trained.names)",
        "trained is None or all(each.row is None or len(each.row) == width(trained.draws[0].prior) "
        "for each in evidence)",
        "stream is None or may_be_labels(stream.labels + tuple(each.label "
        "for each in evidence), p.unknown, len(stream.labels))",
    ),
    "Prior": (
        "nu > n_features - 1",
        "(first is None) == (pseudo is None)",
        "first is not None or n_features > 0",
        "first is None or (first[0] == 0 and (np.diff(first, append=len(pseudo)) >= 2).all())",
        "first is None or near(pseudo[first], [own[1:].sum() for own in np.split(pseudo, first[1:])])",
    ),
    "Franchise": (
        "near(seated[0], np.bincount(table_dish, table_mass, len(menu)))",
        "near(total, np.maximum(menu, held).sum())",
        "extent.tolist() == [len(menu), len(table_dish)]",
    ),
    "Location": (
        "freedom > 0 or not len(mean)",
        "(np.diag(factor) > 0).all() and not np.triu(factor, 1).any()",
    ),
    "Known": (
        'dishes_fit(dishes, prior, "Known.dishes")',
        "dishes.size <= seated.sum(axis=0)",
        "size >= seated.sum(axis=1)",
        "(seated == 0) | (tables.sum(axis=0) > 0)",
        "size.sum() > 0",
        "len(broad) <= len(size)",
        "all(component.shape.freedom > 0 for components in broad for component in components)",
        'all(len(array(each.shape["values"])) == len(array(prior.pseudo)) for components in broad '
        "for each in components)",
        "all(near(sum(each.share for each in components), 1.0) for components in broad if components)",
        'location["values"] is None',
        "len(location.mean) == (prior.n_features if location.freedom else 0)",
        "set(named) <= set(ids.tolist())",
    ),
    "Flags": (
        "len(spans) == len(sizes)",
        "len(members) == spans.sum()",
        "len(low) == len(high) == (spans * sizes).sum()",
        "low <= high",
    ),
    "Space": (
        "space_fits(columns, places, flags, forward)",
        "all((of[categories_of(columns, flags)] == 0).all() for of in (fill, center, constant, forward, backward.T))",
        "(array(open) < len(array(columns))).all()",
        "powers is None or (powers.columns < len(fill)).all()",
        "powers is None or not np.isin(powers.columns, categories_of(columns, flags)).any()",
        "near(backward @ forward, np.eye(forward.shape[1]), 1e-5)",
    ),
    "StreamState": (
        "window.table < len(franchise.table_dish)",
        "window.rows[:, -1] == 1",
        "window_seq < seen",
        "batches <= seen",
        "near(franchise.table_live, np.bincount(window.table, minlength=len(franchise.table_dish)), 0)",
        "near(franchise.table_mass, franchise.table_residual + np.bincount(window.table, window.weight, len("
        "franchise.table_dish)))",
    ),
    "Background": ('definite(covariance, "Background.covariance")',),
    "References": (
        "not earlier",
        "group < log_density[0].shape[1]",
        "weight is None or near(np.bincount(group, weight), np.bincount(group))",
        "all(np.isfinite(own[np.arange(len(group)), group]).all() for own in log_density)",
    ),
    "Residuals": (
        'all(definite(own, "Residuals.whitener") for own in whitener)',
        "near(log_volume, np.linalg.slogdet(whitener)[1])",
    ),
    "Pairs": (
        "np.diagonal(products[0]) >= 0",
        "near(products, products.transpose(0, 2, 1))",
        "correlation[:, 0] >= 0",
        "correlation[:, 1] ** 2 <= correlation[:, 0] * correlation[:, 2] * (1 + ROUNDING) + ROUNDING",
    ),
    "Process": ("near(axes.T @ axes, np.eye(len(axes)))",),
    "Usual": ("(low < high) | ((low == 0) & (high == 0) & (middle == 0) & (variance == 1) & (stuck == 0))",),
    "Columns": ("beyond[0] <= beyond[1] + ROUNDING",),
    "TrainingReport": (
        "recall_interval is None or recall_interval[0] <= recall_interval[1]",
        "set(instances) == set(subclasses)",
    ),
    "TrainedModel": (
        "all(counts_fit(known, references) for known in draws)",
        "all(near(known.size, draws[0].size, 0) for known in draws)",
        "[len(values) + 2 for values in categories] == array(space.places).tolist()",
        "all(array(known.prior.first).tolist() == begins(space.places) for known in draws)",
        "all(len(array(known.prior.pseudo)) == array(space.places).sum() for known in draws)",
        'references is None or rows_fit(references.rows, draws[0].prior, "TrainedModel.references.rows")',
        "references is None or (references.gain is not None) == (order is not None and order.process is not None)",
        "references is None or (references.gain is not None) == (references.effective > 0)",
        "references is None or references.effective <= max(report.instances.values())",
        "tuple(report.instances) == labels",
        "near(list(report.instances.values()), draws[0].size, 0)",
        "report.references == (0 if references is None else len(references.group))",
        "references is None or len(references.log_density) == len(draws)",
        "usual is None or not (usual.low < usual.high)[categories_of(space.columns, space.flags)].any()",
    ),
    "Waiting": (
        "all(later.seq == each.seq + 1 for each, later in zip(decisions, decisions[1:]))",
        "near(probabilities.sum(axis=1), 1)",
    ),
    "Chain": (
        "len(state.franchise.menu) == len(known.size) + len(state.ids)",
        "near(state.franchise.menu, served(state.franchise, known))",
        "state.franchise.held[: len(known.size)] == 1",
        "np.maximum(state.franchise.menu, state.franchise.held) > 0",
        'dishes_fit(state.dishes, known.prior, "StreamState.dishes")',
        'rows_fit(state.window.rows, known.prior, "Guests.rows")',
        "fit_without_window(state, known.prior, len(known.size))",
        'statistics_fit(aside.statistics, known.prior, "Aside.statistics")',
        "once([*known.ids, *state.ids, *aside.ids])",
        "max([*known.ids, *state.ids, *aside.ids]) < state.next_id",
        "life.ids < state.next_id",
        "np.isin(aside.ids, life.ids)",
        "life.last < max(state.seen, 1)",
        "all(kept_fit(one, known.prior) for one in life.kept)",
        "guard is None or ((guard.ids < state.next_id).all() and (guard.owner < len(known.size)).all())",
    ),
    "Guard": (
        "len(books.seen) == len(books.votes) + len(ids) + 1",
        "once(ids[ids >= 0].tolist())",
        "near(shares.classes.sum(), 1)",
        "near(shares.owner.sum(axis=0), 1)",
        "dependent or near(shares.known[: len(books.votes)], 1)",
    ),
    "Called": ("right + unknown <= asked + ROUNDING * (1 + asked)",),
    "Runs": (
        "near(filtered.sum(axis=1), np.ones(len(filtered))) and near(latest.sum(), 1.0)",
        "same <= pairs + ROUNDING",
    ),
    "Arrival": (
        "(process is not None) == (tracked is not None) == (since >= 0)",
        "process is not None or not len(gain)",
        "typical[:, 1] <= typical[:, 0] + ROUNDING",
        "usual[:, 0] >= 0",
        "len(at) <= LAGS[-1]",
    ),
    "Frame": (
        "place[1] > -1",
        "before[1] > -1",
        "reported[1] > -1",
    ),
    "ForeignValue": (
        "certain <= size",
        "since <= latest",
    ),
    "Stream": (
        "frame is None or frame.since <= chains[0].state.seen",
        "all((chain.state.seen, chain.state.batches) == (chains[0].state.seen, chains[0].state.batches) "
        "for chain in chains)",
        "not any(len(chain.aside.ids) for chain in chains[1:])",
        "all(one is None for chain in chains[1:] for one in chain.life.kept)",
        "not waiting.decisions or waiting.decisions[0].seq == chains[0].state.seen - len(waiting.decisions)",
        "sum(decided) == chains[0].state.seen - len(waiting.decisions)",
        "waiting.responsible < len(chains[0].known.ids)",
        "all(each.seq + len(each.keys) == end for each, end in zip(past, [*(each.seq "
        "for each in past[1:]), chains[0].state.seen]))",
        "all(as_in_window(past, chain.state) for chain in chains)",
        "waiting.subclass < chains[0].state.next_id",
        "all((each.subclass[0] < chains[0].state.next_id).all() for each in past)",
        "[action.number for action in actions] == sorted(action.number for action in actions)",
        "all(action_fits(action, chains, labels) for action in actions)",
        'frame is None or all(a.place.shape == frame.place.shape for a in actions if a.name == "FrameVerdict")',
        'not past or rows_fit(np.concatenate([each.rows for each in past]), chains[0].known.prior, "Past.rows")',
        'references is None or rows_fit(references.rows, chains[0].known.prior, "Stream.references.rows")',
        "references is None or (references.group < len(labels)).all()",
        "following is None or len(following.weight) <= len(labels)",
        "arrival is None or "
        "arrival.at.tolist() == list(range(chains[0].state.seen - len(arrival.at), chains[0].state.seen))",
        "arrival is None or max(arrival.since, arrival.fitted, arrival.departed) <= chains[0].state.seen",
        "telling.seen <= chains[0].state.seen",
    ),
    "FrameVerdict": (
        "place[1] > -1",
        "before[1] > -1",
        "reported[1] > -1",
    ),
    "Reservoir": (
        "len(seq) <= max(LEAST_ROOM, rows.shape[1])",
        "priority == priorities(seq)",
    ),
    "Lifecycle": (
        "first <= last",
        "(seq < 0) | ((batch <= seq) & (seq <= last[:, None]))",
        "len(times) == len(keys) == 2 * len(ids) + (seq >= 0).sum()",
        "emerged | ~dormant",
    ),
    "Decision": (
        "label in probabilities and first_label in probabilities",
        "isinstance(nearest_class, str) == isinstance(label, str)",
        "near(sum(probabilities.values()), 1)",
        "near(p_unknown, list(probabilities.values())[-1])",
        "near(probability, probabilities[label])",
    ),
}
"""Expressions by record. The text of the first one that does not hold is in the message."""
