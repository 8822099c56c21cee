from __future__ import annotations

import math

from stream_osr import Decision, NewClassesChanged, SubclassEmerged, SubclassSplit
from stream_osr.discovery.event_base import Explanation, Moment
from stream_osr.evaluation import Detection, TimeToDetection

EXPLANATION = Explanation({}, {}, {}, (), nearest_class="a", nearest_subclass=0, distance=9.0)


def decision(seq: int, subclass_id: int | None) -> Decision:
    probabilities = {"a": 0.1, "unknown": 0.9}
    return Decision(seq, None, "unknown", "unknown", 0.9, 0.9, probabilities, subclass_id, "a", 9.0, 0.0, 0, seq)


def emerged(subclass_id: int, seq: int, size: int = 3) -> SubclassEmerged:
    seen = dict.fromkeys(("first_seen", "last_seen"), Moment(seq, None, None))
    figures = {"size": size, "share": 0.1, "support": 8.0, "trend": 1.0, "exemplars": (), "explanation": EXPLANATION}
    return SubclassEmerged(batch=0, seq=seq, model="", subclass_id=subclass_id, **seen, **figures)


def of(truth: str, *, seats: dict[int, int], announced: list[tuple[int, int]], begin: int = 0) -> TimeToDetection:
    """One letter an instance; the subclass it sits in by position; announced subclasses and their positions."""
    times = TimeToDetection("ab", begin)
    for seq, y_true in enumerate(truth, start=begin):
        times.arrived(y_true)
        if seq in seats:
            times.decided(decision(seq, seats[seq]), y_true)
        for number, at in announced:
            if at == seq:
                times.note(emerged(number, at))
    return times


def test_instances_of_the_class_are_counted_up_to_the_announcement():
    times = of("abzazbzzaz", seats={2: 7, 4: 7, 6: 7}, announced=[(7, 7)])
    assert times.detections == {"z": Detection(first=2, announced=7, instances=4)}
    assert times.classes == {7: "z"}
    assert times.false_alarms == ()
    assert (times.median, times.share_within(4), times.share_within(3)) == (4, 1, 0)


def test_subclass_is_of_the_class_that_most_of_it_is_of():
    times = of("yzzaz", seats={0: 3, 1: 3, 2: 3, 3: 3}, announced=[(3, 3)])
    assert times.detections["y"] == Detection(first=0, announced=None, instances=math.inf)
    assert times.detections["z"] == Detection(first=1, announced=3, instances=2)
    assert times.share_within(1000) == 0.5
    assert math.isinf(times.median)


def test_a_subclass_is_named_by_its_later_instances_if_most_earlier_ones_sat_elsewhere():
    times = TimeToDetection("ab")
    for seq, y_true in enumerate("azzz"):
        times.arrived(y_true)
        times.decided(decision(seq, 5), y_true)
        if seq == 0:
            times.note(emerged(5, seq, size=8))  # seven of the eight had another number
    assert times.classes == {5: "z"}


def test_first_announcement_of_a_class_counts_and_one_of_a_known_class_is_a_false_alarm():
    times = of("zzzzzz", seats={0: 1, 1: 2, 2: 1, 4: 2}, announced=[(2, 2), (1, 4)])
    assert times.detections["z"] == Detection(first=0, announced=2, instances=3)
    times = of("aazaz", seats={0: 1, 1: 1, 2: 1, 4: 2}, announced=[(1, 3), (2, 4)])
    assert times.false_alarms == (1,)
    assert times.detections["z"] == Detection(first=2, announced=4, instances=2)


def test_later_arrivals_do_not_name_the_subclass_but_decisions_that_waited_do():
    times = of("zzaaaa", seats=dict.fromkeys(range(6), 5), announced=[(5, 2)])
    assert times.classes == {5: "z"}
    times = of("zzza", seats={}, announced=[(5, 2)])
    assert times.classes == {}
    assert times.detections["z"].announced is None
    for seq, y_true in enumerate("zzza"):
        times.decided(decision(seq, 5), y_true)
    assert times.detections["z"] == Detection(first=0, announced=2, instances=3)


def test_a_part_is_announced_by_the_split_and_named_by_its_later_instances():
    times = of("zyzyazyyy", seats={0: 5, 1: 5, 2: 5, 3: 5, 5: 5}, announced=[(5, 2)])
    part = {"new_id": 6, "sizes": (3, 2), "exemplars": (), "explanation": EXPLANATION}
    times.note(SubclassSplit(batch=0, seq=5, model="", subclass_id=5, **part))
    assert times.detections["y"].announced is None
    for seq, y_true in ((6, "y"), (7, "y"), (8, "a")):
        times.decided(decision(seq, 6), y_true)
    assert times.classes == {5: "z", 6: "y"}
    assert times.detections["y"] == Detection(first=1, announced=5, instances=2)
    for seq in (9, 10):
        times.decided(decision(seq, 6), "a")
    assert times.false_alarms == (6,)
    assert times.detections["y"].announced is None


def test_positions_begin_where_the_recognizer_is():
    times = of("zaz", seats={100: 4, 102: 4}, announced=[(4, 102)], begin=100)
    assert times.detections["z"] == Detection(first=100, announced=102, instances=2)


def test_without_new_classes_there_is_no_time():
    times = of("abab", seats={}, announced=[])
    times.note(NewClassesChanged(batch=0, seq=3, model="", delta=1, before=0, subclasses=()))
    assert times.detections == {}
    assert math.isnan(times.median)
    assert math.isnan(times.share_within(30))
