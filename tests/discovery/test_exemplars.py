"""Which instances are chosen to show a candidate, where the answer is known."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.discovery.exemplars import choose
from tests.tiers import examples

RNG = np.random.default_rng(5)
MEMBERS = RNG.normal([10.0, -4.0, 0.5], [1.0, 0.2, 3.0], (60, 3))
P = RNG.uniform(0.7, 1.0, 60)
KNOWN = RNG.normal(0.0, 2.0, (80, 3))
CENTRE = np.median(MEMBERS, axis=0)


def lists(*arguments, **more):
    return [chosen.tolist() for chosen in choose(*arguments, **more)]


def test_the_core_is_at_the_centre_the_boundary_unsure_and_the_known_are_near():
    members, p = np.vstack([MEMBERS, CENTRE, [14.0, -3.0, 9.0]]), np.append(P, [1.0, 0.2])
    core, boundary, nearest = choose(members, p, np.vstack([KNOWN, [9.5, -4.0, 0.0]]))
    assert (core[0], boundary[0], nearest[0]) == (60, 61, 80)
    assert len(core) == len(boundary) == len(nearest) == 3
    assert p[boundary].max() <= np.sort(p)[2] + 0.01
    assert p[core].min() >= np.median(p)
    # a typical member that is unsure is not in the core
    core, boundary, _ = choose(np.vstack([MEMBERS, CENTRE]), np.append(P, 0.1), KNOWN)
    assert 60 not in core
    assert boundary[0] == 60
    # if all are sure, the farthest are the boundary
    members = np.vstack([MEMBERS, [25.0, 4.0, 60.0]])
    assert choose(members, np.full(61, 1.0) - 1e-9 * np.arange(61), KNOWN).boundary[0] == 60


def test_units_do_not_matter():
    for units in ([2.0**40, 2.0**-40, 1.0], [1e300, 1e-300, 7.0], [-3.0, 1e5, 0.1]):
        assert lists(MEMBERS * units, P, KNOWN * units) == lists(MEMBERS, P, KNOWN)


def test_distances_to_known_instances_are_in_the_spread_of_the_members():
    narrow = np.column_stack([np.linspace(-50, 50, 21), np.linspace(0.9, 1.1, 21)])
    assert choose(narrow, np.ones(21), [[0.0, 9.0], [70.0, 1.0]], k=1).known.tolist() == [1]
    constant = np.column_stack([np.linspace(-1, 1, 9), np.full(9, 3.0)])
    assert choose(constant, np.ones(9), [[0.0, 0.0], [1.0, 3.0]], k=1).known.tolist() == [1]


def test_missing_values_are_left_out_of_the_distance():
    members, p = MEMBERS.copy(), P.copy()
    members[:, 1] = np.nan
    known = np.array([[np.nan, np.nan, np.nan], [10.0, 99.0, 0.5], [np.inf, -4.0, 0.4]])
    core, boundary, nearest = choose(members, P, known)
    assert sorted(nearest.tolist()) == [0, 1, 2]
    assert nearest[-1] == 0  # it has no value
    assert lists(members, P, known) == lists(members[:, [0, 2]], P, known[:, [0, 2]])
    assert not set(core) & set(boundary)
    p[4] = np.nan  # neither sure nor unsure
    assert 4 not in choose(MEMBERS, p, KNOWN).boundary


def test_few_members_are_divided_between_core_and_boundary():
    for n, core, boundary in ((0, 0, 0), (1, 1, 0), (2, 1, 1), (5, 3, 2), (60, 3, 3)):
        assert [len(part) for part in choose(MEMBERS[:n], P[:n], KNOWN[:0])] == [core, boundary, 0]
    assert lists([], [], []) == [[], [], []], "of no shape"


@examples(60)
@given(st.data())
def test_no_instance_is_chosen_twice_for_any_values(data):
    values = st.floats(width=64, allow_nan=True, allow_infinity=True)
    n, m, d, k = (data.draw(st.integers(0, most)) for most in (9, 9, 3, 4))
    members, known, p = (
        np.array(data.draw(st.lists(values, min_size=size, max_size=size)), float) for size in (n * d, m * d, n)
    )
    members, known = members.reshape(n, d), known.reshape(m, d)
    before = members.copy()
    core, boundary, nearest = choose(members, p, known, k)
    own = [*core.tolist(), *boundary.tolist()]
    assert len(set(own)) == len(own) <= n
    assert set(own) <= set(range(n))
    assert len(nearest) == len(set(nearest.tolist())) == (min(k, m) if n else 0)
    assert np.array_equal(before, members, equal_nan=True)
