"""Another model on a live topic: the earlier one's stream is ended, and goes on or begins anew, once and for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_osr import SubclassEmerged
from stream_osr.errors import ConnectorError
from stream_osr_connectors.commands.parsing import parse_record
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.models import Journal, ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin, seed_of, step
from stream_osr_connectors.kafka.run.partition_position import StartingPoint
from stream_osr_connectors.kafka.run.recovery import LaterModelError, Recovery
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary, Progress
from stream_osr_connectors.kafka.wire.messages import PartitionOutput
from tests.blobs import fitted_once, stream_part
from tests.kafka.test_models import of_other_features
from tests.kafka.test_partition import DECODE, PLACE, advance, records, replay

HELD_BACK = 20
END = 200


class Upgrade:
    """A partition that model A has run up to offset ``END``, and what model B finds."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        fitted_once(chains=1, decision_delay=HELD_BACK, seed=5).save(folder / "a.osr")
        fitted_once(60, chains=1, decision_delay=HELD_BACK, seed=6).save(folder / "b.osr")
        self.settings = {"brokers": "b", "input": "in", "state": folder / "state", **settings}
        self.states = FolderStates(folder / "state" / "stream-osr").open()
        self.snapshots = Snapshots(self.states, keep=2)
        self.state, self.outcomes = self.run()
        self.snapshots.write(PLACE, self.state)

    def loaded(self, name: str, **settings: Any) -> tuple[ServiceSettings, ModelFile]:
        whole = ServiceSettings(model=self.folder / f"{name}.osr", **{**self.settings, **settings})
        return whole, ModelFile.load(whole)

    def recovery(self, name: str, **settings: Any) -> Recovery:
        whole, model = self.loaded(name, **settings)
        model.keep(self.states)
        return Recovery(whole, model, self.snapshots)

    def run(self) -> tuple[Partition, list[PartitionOutput]]:
        everything, (_, model) = records(1000), self.loaded("a")
        return advance(
            begin(model.recognizer(PLACE), Boundary(0)), [everything[:40], everything[40:120], everything[120:END]]
        )

    def drop_snapshots(self) -> None:
        for path in self.states.folder.glob("*.osr"):
            path.unlink()

    def committed(self, recovery: Recovery, state: Partition) -> Committed:
        return Committed(state.history.last.offset, recovery.progress(state).text(), 0, 1000)

    def found(self, recovery: Recovery, **changes: Any) -> StartingPoint:
        earlier = self.committed(self.recovery("a"), self.state)
        return recovery.find(PLACE, earlier._replace(**changes), 0)


@pytest.fixture
def upgrade(tmp_path: Path) -> Upgrade:
    return Upgrade(tmp_path, on_model_change="carry")


def portion(state: Partition, size: int) -> list[Any]:
    """The next records of an endless stream."""
    at = state.history.last.offset
    return records(1000)[at : at + size]


def decided(outcomes: list[PartitionOutput]) -> list[int]:
    return [origin.offset for outcome in outcomes for origin, _, *_ in outcome.decisions]


def emerged(outcomes: list[PartitionOutput]) -> list[int]:
    return [e.subclass_id for o in outcomes for e in o.events if isinstance(e, SubclassEmerged)]


@pytest.mark.parametrize("change", ["carry", "cold"])
def test_every_record_has_one_decision(tmp_path: Path, change: str) -> None:
    upgrade = Upgrade(tmp_path, on_model_change=change)
    recovery = upgrade.recovery("b")
    found = upgrade.found(recovery)
    assert (found.new, found.replay, recovery.is_earlier(found.state)) == (False, (), True)
    state, handed = recovery.hand_over(PLACE, found.state, 0)
    assert not recovery.is_earlier(state)
    assert [d.key for _, d, _ in handed.decisions] == [f"k{n}" for n in range(END - HELD_BACK, END)]
    upgrade.state.model.flush()
    assert [d for _, d, _ in handed.decisions] == list(upgrade.state.model.drain()), "as the earlier model saw them"
    after, outcomes = advance(state, [portion(state, 64)])
    assert decided([*upgrade.outcomes, handed, *outcomes]) == list(range(END + 64 - HELD_BACK))
    assert len(after.waiting) == HELD_BACK
    assert state.history.fresh == (change == "cold")
    assert len(emerged(upgrade.outcomes)) == 1
    if change == "carry":
        assert emerged(outcomes) == []
        truth = [label for _, label in stream_part(1000)]
        ids = {d.subclass_id for origin, d, _ in outcomes[0].decisions if truth[origin.offset] == "new"}
        assert ids == set(emerged(upgrade.outcomes))
        assert outcomes[0].decisions[0][1].seq == END


def test_it_is_handed_over_at_the_end_wherever_the_snapshot_is(upgrade: Upgrade) -> None:
    recovery = upgrade.recovery("b")
    expected, handed = recovery.hand_over(PLACE, upgrade.found(recovery).state, 0)
    upgrade.drop_snapshots()
    found = upgrade.found(recovery)
    assert found.replay == (Boundary(40), Boundary(120), Boundary(200))
    state, again = recovery.hand_over(PLACE, replay(found, records(1000)), 0)
    assert again.decisions == handed.decisions
    following = [portion(state, 64)]
    assert advance(state, following)[1] == advance(expected, following)[1]


def test_the_beginning_comes_back_by_replay(upgrade: Upgrade) -> None:
    state, _ = (recovery := upgrade.recovery("b")).hand_over(PLACE, upgrade.found(recovery).state, 0)
    begun = upgrade.recovery("b").find(PLACE, upgrade.committed(recovery, state), 0)
    assert (begun.new, begun.replay, begun.state.history) == (False, (), state.history)
    later, _ = advance(state, [portion(state, 32)])
    found = upgrade.recovery("b").find(PLACE, upgrade.committed(recovery, later), 0)
    assert found.replay == (Boundary(END + 32),)
    back = replay(found, records(1000))
    following = [portion(later, 64)]
    expected = advance(later, following)[1]
    assert advance(back, following)[1] == expected
    third = upgrade.recovery("a").find(PLACE, upgrade.committed(recovery, later), 0)
    assert third.replay == (Boundary(END + 32),), "and back to the first model"


def test_other_settings_are_another_model(upgrade: Upgrade) -> None:
    recovery = upgrade.recovery("a", seed=9)
    state, _ = recovery.hand_over(PLACE, upgrade.found(recovery).state, 0)
    assert state.model.seed == seed_of(9, PLACE)
    assert state.model.value.emerged_statistics().keys() == upgrade.state.model.value.emerged_statistics().keys()


def test_a_command_goes_to_the_stream_it_was_meant_for(upgrade: Upgrade) -> None:
    recovery = upgrade.recovery("b")
    earlier = upgrade.found(recovery).state
    state, _ = recovery.hand_over(PLACE, earlier, labels=3)
    assert state.history.last == Boundary(END, 0), "ids are the same, so commands to them hold"
    (key,) = emerged(upgrade.outcomes)
    command = parse_record(json.dumps({"subclass": f"in/3:{key}", "label": "third"}).encode())
    after, _ = step(state, PLACE, portion(state, 32), [command], Boundary(END + 32, 3), DECODE)
    assert after.model.summary().known[-1].name == "third"
    cold, _ = upgrade.recovery("b", on_model_change="cold").hand_over(PLACE, earlier, labels=3)
    assert cold.history.last == Boundary(END, 3)


def test_without_decisions_held_back_a_cold_start_needs_nothing(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_model_change="cold")
    fitted_once(chains=1, seed=5).save(tmp_path / "a.osr")
    upgrade.state, _ = upgrade.run()
    found = upgrade.found(upgrade.recovery("b"), first=150)
    assert (found.new, found.state.history.last, found.replay) == (True, Boundary(END), ())


@pytest.mark.parametrize("change", ["carry", "cold", "refuse"])
def test_a_partition_of_a_later_model_waits_for_it(tmp_path: Path, change: str) -> None:
    upgrade = Upgrade(tmp_path, on_model_change=change)
    later, ours = upgrade.recovery("a"), upgrade.recovery("b")
    identities = [recovery.progress(upgrade.state).model for recovery in (ours, later)]
    journal = Journal(upgrade.states)
    for identity in identities:
        journal.append(identity)
    for _ in range(2):
        newer = rf"in/3 ran under the newer model {identities[1]}, .* {identities[0]} and waits"
        with pytest.raises(LaterModelError, match=newer):
            upgrade.found(ours)
    assert upgrade.found(later).state.history == upgrade.state.history, "the worker that has it goes on"
    journal.append(identities[0])  # given to the group once more: now it follows
    if change == "refuse":
        with pytest.raises(ConnectorError, match="has run the model") as refused:
            upgrade.found(ours)
        assert not isinstance(refused.value, LaterModelError)
    else:
        assert ours.is_earlier(upgrade.found(ours).state)


def test_when_nothing_can_be_carried_over_it_stops(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_lost_state="cold")
    with pytest.raises(ConnectorError, match=r"has run the model .* and this one .*: carry keeps .*, cold"):
        upgrade.found(upgrade.recovery("b"))
    recovery = upgrade.recovery("b", on_model_change="carry")
    of_other_features().save(tmp_path / "c.osr")
    different = upgrade.recovery("c", on_model_change="carry")
    with pytest.raises(ConnectorError, match=r"in/3: the features differ.*has 'b' and the new one has 'c'.*cold"):
        different.hand_over(PLACE, upgrade.found(different).state, 0)
    upgrade.drop_snapshots()
    with pytest.raises(ConnectorError, match=r"nothing can be carried over.*need the features of that model"):
        upgrade.found(different)
    with pytest.raises(ConnectorError, match=r"nothing can be carried over.*no snapshot leads to offset 200"):
        upgrade.found(recovery, first=10)
    committed = upgrade.committed(upgrade.recovery("a"), upgrade.state)
    (upgrade.states.folder / f"{Progress.parse(committed.metadata).model}.model").unlink()
    with pytest.raises(ConnectorError, match=r"nothing can be carried over.*there is no file"):
        upgrade.recovery("b", on_model_change="carry").find(PLACE, committed, 0)
    found = upgrade.recovery("b", on_model_change="cold").find(PLACE, committed, 0)
    assert found.new
    assert "there is no file" in str(found.change), "on_lost_state allows it, and it is logged"
    strict = upgrade.recovery("b", on_model_change="cold", on_lost_state="fail")
    with pytest.raises(ConnectorError, match=r"earlier model's stream is missing.*on_lost_state to cold"):
        strict.find(PLACE, committed, 0)
