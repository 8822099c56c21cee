"""Nothing that a stream comes to is refused: with far outliers, labels, names, mutes and what is taken back."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.archive import files
from stream_osr.archive.checks import check_records, recognizer, statistics_fit
from stream_osr.archive.files import form_from, open_archive
from stream_osr.archive.recognizers import content_of
from stream_osr.archive.record import form_of
from stream_osr.archive.records import BY_TYPE
from stream_osr.config import grouped
from stream_osr.errors import InvalidSubclass, NothingToUndo, PersistenceError, RefusedState
from stream_osr.model.prior import make_prior
from stream_osr.support.rules import RecordForm, RefusedValue
from tests.archives.changes import found, places
from tests.archives.golden import VERSIONS, unpacked
from tests.habits.values import each_value

STREAMS: list[dict[str, Any]] = [
    {"follow_drift": True},
    {"max_subclasses": 1, "max_dormant": 2, "half_life": 15.0},
    {"chains": 1, "label_horizon": 0, "window": 20},
    {"max_wait": 40.0, "references": 0, "max_classes": 5},
]


def ask(model: OpenSetRecognizer, what: float, at: int, emerged: list[int], rng: np.random.Generator) -> bool:
    """Now and then label, promote, mute or undo; what cannot be is refused, and nothing has changed."""
    try:
        if what < 0.02:
            model.learn_label(max(0, at - int(rng.integers(60))), f"c{rng.integers(4)}")
        elif what < 0.03 and emerged:
            model.promote([emerged.pop()], f"p{at % 2}")
        elif what < 0.035 and emerged:
            model.mute([emerged.pop()])
        elif what < 0.05:
            model.undo()
    except (InvalidSubclass, NothingToUndo):
        return False
    return what < 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", each_value(STREAMS, first=1))
def test_no_state_of_a_stream_is_refused(arguments: dict[str, Any]) -> None:
    rng, d = np.random.default_rng(STREAMS.index(arguments)), 3
    centres, scale = rng.normal(size=(7, d)) * 8.0, 10.0 ** rng.integers(-6, 7, size=d)
    settings = {"chains": 2, "batch_size": 32, "training_sweeps": 3, "decision_delay": 10, "half_life": 60.0}
    model = OpenSetRecognizer(**grouped(seed=1, **{**settings, **arguments}))

    def row(j: int, at: int) -> dict[str, float]:
        x = centres[j] + 1e-3 * at * (j == 0) + rng.normal(size=d)
        if rng.random() < 0.01:
            x *= 10.0 ** rng.integers(1, 30)
        return dict(zip("abc", (x * scale).tolist(), strict=True))

    for at in range(150):
        model.learn_one(row(at % 3, 0), f"c{at % 3}")
    model.freeze()
    emerged: list[int] = []
    checked = 0
    for at in range(800):
        model.learn_one(row(int(rng.integers(3 + at // 200)), at), t=float(at), key=at)
        emerged += [event.subclass_id for event in model.drain_events() if isinstance(event, SubclassEmerged)]
        if ask(model, rng.random(), at, emerged, rng) or at % 32 == 31:
            form = form_of(content_of(model, model.value), BY_TYPE, {})
            check_records(form)
            recognizer(form, "", {})
            checked += 1
    assert checked > 30


def test_the_message_of_a_refused_archive_is_that_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = unpacked(VERSIONS[0], "mid-stream.osr", tmp_path)
    content = form_from(open_archive(path.read_bytes()))
    (place,) = (each for each in places(content) if str(each) == "Franchise.table_dish#0")
    found(content, place)[3] = 99
    monkeypatch.setattr(files, "form_from", lambda *_: content)
    message = (
        "model.osr is damaged: Franchise.table_dish[3] is 99; expected whole numbers from 0 to 5 (Franchise.menu has "
        "6); save it again, or go back to an earlier copy"
    )
    with pytest.raises(PersistenceError, match=re.escape(message)):
        OpenSetRecognizer.load(path.rename("model.osr"))
    assert message[:60] in (Path(__file__).parents[2] / "docs" / "archives.md").read_text()


def test_a_value_in_a_mapping_is_refused_by_its_key() -> None:
    state = form_of(content_of(fresh := OpenSetRecognizer(), fresh.value), BY_TYPE, {})
    state["counters"] |= {"decided": -1}
    with pytest.raises(RefusedValue, match=r"counters\['decided'\] is -1 "):
        recognizer(state, "", {})


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    model = OpenSetRecognizer.load(unpacked(VERSIONS[0], "mid-stream.osr", tmp_path))
    target = tmp_path / "model.osr"
    model.save(target)
    before = target.read_bytes()
    stream = model.value.running[1]
    broken = stream._replace(odds=stream.odds._replace(excess=np.full_like(stream.odds.excess, np.nan)))
    model.value = replace(model.value, stream=broken)
    with pytest.raises(RefusedState, match=r"model.osr is not written: Odds.excess.* is nan; expected .*defect"):
        model.save(target)
    assert target.read_bytes() == before


@pytest.mark.parametrize(("share", "refused"), [(1.0, False), (0.985, False), (0.001, True), (-1.0, True)])
def test_a_scatter_may_be_somewhat_below_that_of_the_base_measure(share: float, refused: bool) -> None:
    """As where instances left a subclass after its class had moved with its instances."""
    prior = make_prior(3, nu=6.0, scale=0.5, beta=0.1)
    sums = np.diag([share * prior.psi, 2.0, 3.0, 3.1])[None]
    statistics = RecordForm("Statistics", {"size": np.array([3]), "matrix": sums, "counts": None})
    if not refused:
        statistics_fit(statistics, prior, "here")
        return
    with pytest.raises(RefusedValue, match=r"here.matrix\[0\]"):
        statistics_fit(statistics, prior, "here")
