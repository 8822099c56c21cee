"""Summaries, links and events of global subclasses as bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.reconcile import LinkChanges as ReconcileChanges
from stream_osr.discovery.reconcile import Local, LocalSummary, ReconciledSubclasses, reconcile
from stream_osr.stream.local_summaries import SubclassSums
from stream_osr_connectors.kafka.wire.messages import Message, Outgoing
from stream_osr_connectors.kafka.wire.subclasses import (
    Links,
    Stamp,
    alive,
    largest_summary,
    messages_of_changes,
    parse_summary,
    summary,
)
from stream_osr_connectors.values import DecodeError
from tests.blobs import fitted_once, play, stream_part
from tests.kafka.test_messages import validator
from tests.tiers import examples

LOCAL = Local("in/3", "77aa", 0)


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    return play(fitted_once(batch_size=64, chains=1, seed=5), stream_part(256))


def received(message: Outgoing) -> Message:
    return Message(message.topic, 0, 5, 1_700_000_000_000, message.key, message.value, message.headers)


def check(name: str, message: Outgoing) -> None:
    validator(name).validate(orjson.loads(message.value or b""))


def said(model: OpenSetRecognizer) -> tuple[Outgoing, LocalSummary]:
    key, statistics = next(iter(model.value.emerged_statistics().items()))
    local = LOCAL._replace(id=key)
    message = summary(model.trained, "in.subclasses", local, SubclassSums(key, statistics, (4,)), Stamp("i", "s"))
    return message, LocalSummary(local, statistics, (4,))


def test_a_summary_is_read_as_it_was_said(model: OpenSetRecognizer) -> None:
    message, expected = said(model)
    check("subclass", message)
    parsed = parse_summary(received(message), {}, model.trained)
    assert parsed is not None
    assert expected.statistics is not None
    assert parsed.statistics is not None
    assert (parsed.local, parsed.absorbed) == (expected.local, (4,))
    assert parsed.statistics.size == expected.statistics.size
    np.testing.assert_allclose(parsed.statistics.matrix, expected.statistics.matrix, rtol=1e-12)
    assert message.timestamp is None
    assert len(message.value or b"") <= largest_summary(model.trained)


def test_a_tombstone_belongs_to_the_latest_run(model: OpenSetRecognizer) -> None:
    message = summary(model.trained, "in.subclasses", LOCAL, SubclassSums(0, None), Stamp("i", "s"))
    assert message.value is None
    assert parse_summary(received(message), {"in/3": "77aa"}, model.trained) == LocalSummary(LOCAL, None)


def test_another_models_summary_is_none_and_junk_an_error(model: OpenSetRecognizer) -> None:
    message = received(said(model)[0])
    value = orjson.loads(message.value or b"")
    other = message._replace(value=orjson.dumps({**value, "model": "00"}))
    assert parse_summary(other, {}, model.trained) is None
    fields = [{"sums": [[1.0]]}, {"sums": "x"}, {"size": 0}, {"size": None}, {"run": None, "sums": None}]
    junk = [{"value": orjson.dumps({**value, **change})} for change in fields]
    for change in (*junk, {"key": b"in:3"}, {"key": None}, {"value": b"\xff"}, {"value": b"[]"}):
        with pytest.raises(DecodeError):
            parse_summary(message._replace(**change), {}, model.trained)


def test_changes_are_published_as_their_schemas_say_and_links_read_again(model: OpenSetRecognizer) -> None:
    known = model.trained.known
    first = said(model)[1]
    state, changes = reconcile(ReconciledSubclasses(), first, known.prior, known.location)
    assert changes.emerged == (0,)
    changes = ReconcileChanges({**changes.linked, LOCAL._replace(id=99): 0}, (0,), {1: 0})
    topics = "in.links", "in.global-events"
    stamp = Stamp("in.subclasses-0-5", "s", 7)
    messages = messages_of_changes(model.trained, topics, first.local, state, changes, stamp)
    stored = Links({}, {})
    for message in messages:
        check("link" if message.topic == topics[0] else "global-event", message)
        if message.topic == topics[0]:
            stored.read(received(message))
    assert stored == Links(changes.linked, changes.merged)
    events = [orjson.loads(m.value or b"") for m in messages if m.topic == topics[1]]
    assert [(event["type"], event["global"]) for event in events] == [("SubclassMerged", 1), ("SubclassEmerged", 0)]
    assert len({dict(message.headers)["ce_id"] for message in messages}) == len(messages)
    assert stored.final(1) == stored.final(0) == 0
    assert Links({}, {3: 2, 2: 0}).final(3) == 0
    with pytest.raises(DecodeError, match="global is None"):
        stored.read(received(messages[0])._replace(value=b"{}"))


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
digits = st.sampled_from(["0", "7", "9" * 15, "9" * 16, "9" * 5000, "٣", "-1", "1.0", ""])
names = st.builds("{}/{}:{}".format, st.sampled_from(["in", "", "a/b"]), digits, digits) | st.text(max_size=5)
raw = st.sampled_from([b"", b"{", b"[]", b'"into"', b"7", b"null", b"[" * 5000, b'{"global": 1e999}', b"\xff"])


def changed(value: dict[str, Any]) -> st.SearchStrategy[bytes | None]:
    """Junk that looks like a record: some of its fields are missing, or something else."""
    fields = st.fixed_dictionaries({}, optional=dict.fromkeys([*value, "into"], anything | st.integers(0, 9)))
    gone = st.sets(st.sampled_from(sorted(value)), max_size=1)
    made = st.builds(
        lambda new, without: {k: v for k, v in {**value, **new}.items() if k not in without}, fields, gone
    )
    return made.map(orjson.dumps) | raw | st.none()


LINK = {"schema": "s", "subclass": "in/3:0", "run": "77aa", "global": 0}
links = changed(LINK) | names.map(lambda name: orjson.dumps({**LINK, "subclass": name}))


@examples(100)
@given(st.lists(links, max_size=10))
def test_junk_among_the_links_is_an_error_and_has_no_effect(values: list[bytes | None]) -> None:
    stored = Links({}, {})
    for value in values:
        before = Links(dict(stored.links), dict(stored.merged))
        try:
            stored.read(Message("in.links", 0, 5, 0, b"k", value, []))
        except DecodeError:
            assert stored == before
    assert all(type(key) is int for key in [*stored.links.values(), *stored.merged, *stored.merged.values()])
    for key in [*stored.links.values(), *stored.merged]:
        assert stored.final(key) not in stored.merged, "it goes on under an identity that has not ended"


def test_links_in_a_circle_have_an_end() -> None:
    stored = Links({}, {})
    taken = []
    for ended, into in [(1, 2), (2, 3), (3, 1), (2, 2), (3, 4)]:
        with suppress(DecodeError):
            stored.read(Message("l", 0, 5, 0, b"k", orjson.dumps({"global": ended, "into": into}), []))
            taken.append((ended, into))
    assert taken == [(1, 2), (2, 3), (3, 4)]
    assert Links({}, {1: 2, 2: 1}).final(1) in (1, 2)
    with pytest.raises(DecodeError, match="global 4 is to end in 1, which has ended in 4"):
        stored.read(Message("l", 0, 5, 0, b"k", b'{"global": 4, "into": 1}', []))


@examples(100)
@given(st.data())
def test_junk_among_the_summaries_is_an_error(model: OpenSetRecognizer, data: st.DataObject) -> None:
    """What is taken for a summary can be reconciled, whatever it is; anything else is a reason in words."""
    message, good = said(model)
    value = orjson.loads(message.value or b"")
    numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1) | st.floats(-9, 9)
    rows = st.tuples(*(st.lists(numbers, min_size=i, max_size=i) for i in (1, 2, 3))).map(list)
    sums = rows.map(lambda rows: orjson.dumps({**value, "sums": rows}))
    exact = st.integers(1, 2**53).flatmap(
        lambda n: rows.map(lambda r: orjson.dumps({**value, "size": n, "sums": [*r[:2], [*r[2][:2], n]]}))
    )
    content = data.draw(changed(value) | sums | exact)
    key = data.draw(st.one_of(*[st.just(message.key)] * 3, names.map(str.encode), st.binary(max_size=5)))
    junk = received(message)._replace(key=key, value=content)
    alive([junk, received(message)])
    try:
        parsed = parse_summary(junk, {}, model.trained)
    except DecodeError:
        return
    if parsed is None:
        return
    known, state = model.trained.known, ReconciledSubclasses()
    for number, each in enumerate((good, parsed, parsed._replace(local=Local("in/4", "88bb", 0)))):
        state, changes = reconcile(state, each, known.prior, known.location)
        topics, id = ("in.links", "in.global-events"), str(number)
        messages_of_changes(model.trained, topics, each.local, state, changes, Stamp(id, "s"))


def test_who_is_alive(model: OpenSetRecognizer) -> None:
    """The latest word on each counts, and with the first word of a new run the one before has ended."""

    def of(number: int, run: str = "77aa", place: str = "in/3", ended: bool = False) -> Message:
        statistics = next(iter(model.value.emerged_statistics().values()))
        about = SubclassSums(number, None if ended else statistics)
        return received(summary(model.trained, "s", Local(place, run, number), about, Stamp("i", "s")))

    junk = of(9)._replace(value=b"{}"), of(9)._replace(key=b"junk"), of(9)._replace(value=b"{")
    said = [of(0), of(1), *junk, of(2), of(1, ended=True), of(0, place="in/4")]
    assert alive(said) == {LOCAL._replace(id=0), LOCAL._replace(id=2), Local("in/4", "77aa", 0)}
    assert alive([*said, of(0, run="88bb")]) == {Local("in/3", "88bb", 0), Local("in/4", "77aa", 0)}
