"""Broad terms: where a class lies that its kept subclasses do not describe."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy

from stream_osr.model import background_components as library_background
from stream_osr.model import student_t
from stream_osr.model import training as library
from stream_osr.model.feature_space import bounded_scatter
from stream_osr.model.feature_space.whitening import fit_whitening
from stream_osr.model.known import densities, learn_labelled, log_class_densities, log_new
from stream_osr.model.location_fit import fit_location
from stream_osr.model.prior import homogeneous
from stream_osr.model.student_t import CONJUGATE
from tests.model.problems import make_base
from tests.model.test_training import labelled
from tests.oracles import broad as oracle


def counts(members):
    """What each instance of a class counts in its scatter."""
    n, d = members.shape
    return bounded_scatter.bounded_scatter(
        members, np.zeros(n, int), lambda s: (s + (d + 1) * np.eye(d)) / (n + d + 1)
    )[2]


def summary(d=2, sizes=(40, 1, 12), dropped=(3, 0, 2), epsilon=0.09, nu=None, heavy=False):
    """Classes of one large subclass, and as many instances each in subclasses of one."""
    prior, base = make_base(d, nu=nu)
    rng = np.random.default_rng(d)
    group = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=6.0, size=(len(sizes), d))
    noise = rng.standard_t(2.5, size=(len(group), d)) if heavy else rng.normal(size=(len(group), d))
    rows = centres[group] + noise
    dish, count = group.copy(), len(sizes)
    for j, lost in enumerate(dropped):
        for i in np.flatnonzero(group == j)[:lost]:
            dish[i], rows[i] = count, rows[i] + 4.0
            count += 1
    seating = library.seat_by_groups(homogeneous(rows), group, dish, prior, True)
    training = library.Training(fit_whitening(rows, group), prior, seating)
    return (*library.summarize(training, epsilon, background_components=True), rows, group, dish, base)


def left_out(whole, d, freedom):
    return student_t.log_t(whole.square, whole.log_determinant, d, freedom)


# Left out of its class


def test_leaving_out_is_fitting_again_without_it():
    for n, d in product((2, 5, 40), (1, 3, 8)):
        members = np.random.default_rng(n + d).normal(size=(n, d)) * np.arange(1, d + 1) + 3.0
        whole = library_background.outline(members)
        mean, scale = oracle.mean_and_scale(members)
        np.testing.assert_allclose(whole.mean, mean, atol=1e-12)
        np.testing.assert_allclose(np.linalg.inv(whole.factor.T @ whole.factor), scale, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(left_out(whole, d, 4.5), oracle.log_left_out(members, 4.5), rtol=1e-9)


def test_leaving_out_with_far_instances():
    members = np.random.default_rng(1).normal(size=(150, 3))
    members[0, 0], members[1] = 1e3, [-300.0, 200.0, 100.0]
    counted = counts(members)
    assert (counted[:2] < 0.1).all()
    assert (counted[2:] == 1.0).all()
    expected = oracle.log_left_out(members, 4.5, counted)
    np.testing.assert_allclose(left_out(library_background.outline(members), 3, 4.5), expected, rtol=1e-8)
    for far in (1e3, 1e8, 1e15):
        assert np.isfinite(left_out(library_background.outline(np.array([[far, 0.0], [-far, 1.0]])), 2, 3.0)).all()
    np.testing.assert_array_equal(left_out(library_background.outline(np.zeros((1, 2))), 2, 3.0), [-np.inf])


# Fitting


@pytest.mark.parametrize("heavy", [False, True])
def test_the_freedom_foresees_the_left_out_instances_best(heavy):
    rows, group = labelled(seed=5, sizes=(80, 1, 60), d=2)
    if heavy:
        rows += np.random.default_rng(6).standard_t(1.3, size=rows.shape)
    prior, alpha = make_base(2, nu=4.0)[0], 7.0
    rng = np.random.default_rng(7)
    kept, log_own = rng.random(141) < 0.8, rng.normal(-20, 2, 141)
    log_own[[0, 80]] = -np.inf
    dish = np.where(kept, group, -1)
    components, found = library_background.fit_background_components(rows, group, dish, log_own, alpha, prior)
    log_weight = np.empty(141)
    for i, j in enumerate(group):  # of what the others leave
        others = np.delete(group, i) == j
        missing = (~np.delete(kept, i)[others]).sum() + alpha
        log_weight[i] = np.log(missing / (others.sum() + alpha))
    totals, each = [], []
    for above in library_background.FREEDOM_ABOVE:
        own = [rows[group == j] for j in range(3)]
        densities_of_each = [oracle.log_left_out(members, 3.0 + above, counts(members)) for members in own]
        each.append(np.logaddexp(log_own, log_weight + np.concatenate(densities_of_each)))
        totals.append(each[-1][np.arange(141) != 80].sum())
    best = int(np.argmax(totals))
    assert [each.shape.freedom for (each,) in components] == [3.0 + library_background.FREEDOM_ABOVE[best]] * 3
    np.testing.assert_allclose(found, each[best], rtol=1e-9)
    assert np.flatnonzero(found == -np.inf).tolist() == [80]
    assert best < 2 if heavy else best > 3


def test_the_broad_term_takes_what_the_kept_subclasses_leave():
    known, log_density, rows, group, dish, base = summary()
    assert known.dishes.size.tolist() == [37, 1, 10]
    frozen, alpha = densities(known), known.alpha
    missing = [(3 + alpha) / (40 + alpha), alpha / (1 + alpha), (2 + alpha) / (12 + alpha)]
    np.testing.assert_allclose(np.exp(library_background.log_missing(frozen.log_weight)), missing, rtol=1e-12)
    points = np.random.default_rng(2).normal(scale=6.0, size=(15, 2))
    found, _ = log_class_densities(known, frozen, homogeneous(points))
    for j, n in enumerate((40, 1, 12)):
        members, block = rows[group == j], rows[dish == j]
        freedom, share = known.background_components[j][0].shape.freedom, len(block) / (n + alpha)
        kept = np.log(share) + [base.log_predictive(x, block) for x in points]
        broad = np.log(missing[j]) + [oracle.log_density(x, members, freedom) for x in points]
        np.testing.assert_allclose(found[:, j], np.logaddexp(kept, broad), rtol=1e-9)
    # and left out of both, an instance's own class
    own = log_density[np.arange(len(rows)), group]
    for i in (0, 5, 41, 45):  # dropped, kept, dropped, kept
        j, others = group[i], np.arange(len(rows)) != i
        members, block = rows[(group == j) & others], rows[(dish == j) & others]
        freedom, share = known.background_components[j][0].shape.freedom, len(block) / (len(members) + alpha)
        kept = np.log(share) + base.log_predictive(rows[i], block)
        broad = np.log1p(-share) + oracle.log_density(rows[i], members, freedom)
        assert own[i] == pytest.approx(np.logaddexp(kept, broad), rel=1e-9), i
    # the only instance of its class: no density without it, and the rank of a new one
    assert own[40] == -np.inf
    np.testing.assert_allclose(known.ranks[1], log_new(known, homogeneous(rows[40:41]))[0])
    assert np.isfinite(np.delete(own, 40)).all()


def test_adding_broad_terms_changes_no_argument_and_no_class_that_came_later():
    known, _, rows, *_ = summary()
    log_density = np.random.default_rng(3).normal(-8, 3, (len(rows), 4))
    log_density[0, 0] = -np.inf
    before = log_density.copy()
    log_weight = np.vstack([densities(known).log_weight, np.full(3, -2.0)])
    found = library_background.add_background_component(
        log_density, known.background_components, log_weight, homogeneous(rows)
    )
    np.testing.assert_array_equal(log_density, before)
    np.testing.assert_array_equal(found[:, 3], before[:, 3])
    for j, ((shape, share),) in enumerate(known.background_components):
        assert share == 1.0
        broad = scipy.stats.multivariate_t(shape.mean, np.linalg.inv(shape.factor.T @ shape.factor), df=shape.freedom)
        term = library_background.log_missing(log_weight)[j] + broad.logpdf(rows)
        np.testing.assert_allclose(found[:, j], np.logaddexp(before[:, j], term), rtol=1e-9)


def test_a_class_with_its_broad_term_has_mass_one():
    rng, prior = np.random.default_rng(5), make_base(1)[0]
    rows, group = labelled(seed=4, sizes=(25, 40), d=1, parts=2)
    training = library.train(rows, group, fit_whitening(rows, group), prior, rng, sweeps=5)
    for epsilon, broad in ((0.0, False), (0.0, True), (0.1, True)):
        known, log_density = library.summarize(training, epsilon, broad)
        assert bool(known.background_components) == broad
        assert np.isfinite(log_density).all()
        late = known
        for number in range(20):  # labels that come late change the shares, not the mass
            late = learn_labelled(late, np.array([rng.normal(scale=5.0), 1.0]), 0, rng, 100 + number)
        for now, j in product((known, late), range(2)):
            frozen, size = densities(now), now.size[j]

            def density(x: float, j=j, now=now, frozen=frozen) -> float:
                return float(np.exp(log_class_densities(now, frozen, np.array([[x, 1.0]]))[0][0, j]))

            mass, _ = scipy.integrate.quad(density, -np.inf, np.inf, limit=400)
            assert mass == pytest.approx(1.0 if broad else size / (size + now.alpha), abs=2e-3)


# Holes


def apart(*centres, d=5, n=120, scale=1.0):
    """Fit background components to one class with a subclass of ``n`` instances around each centre."""
    rng, prior = np.random.default_rng(11), make_base(d)[0]
    dish = np.repeat(np.arange(len(centres)), n)
    rows = np.array(centres)[dish][:, None] + scale * rng.normal(size=(len(dish), d))
    prior = prior._replace(spread=np.full(d, scale**2))
    log_own = np.full(len(dish), -10.0)
    (components,), found = library_background.fit_background_components(rows, 0 * dish, dish, log_own, 5.0, prior)
    return rows, dish, components, found


@pytest.mark.parametrize(("centres", "scale", "count"), [((0, 1), 1.0, 1), ((0, 9), 1.0, 2), ((0, 2), 0.1, 2)])
def test_the_place_between_separate_subclasses_has_no_background_component(centres, scale, count):
    rows, _, components, _ = apart(*centres, scale=scale)
    assert len(components) == count
    between = homogeneous(np.full((1, 5), np.mean(centres)))
    each = [np.log(share) + student_t.log_student_t(between, shape)[0] for shape, share in components]
    usual = [np.log(share) + student_t.log_student_t(homogeneous(rows), shape) for shape, share in components]
    lowest = np.quantile(np.logaddexp.reduce(usual), 0.01)
    assert (np.logaddexp.reduce(each) > lowest) == (count == 1)


def test_a_hole_with_instances_of_the_class_in_it_is_covered():
    """Eight instances lie between the subclasses, in a subclass that is not kept."""
    rng, prior = np.random.default_rng(11), make_base(5)[0]
    dish = np.repeat([0, 1, -1], [120, 120, 8])
    rows = np.repeat([0.0, 20.0, 10.0], [120, 120, 8])[:, None] + rng.normal(size=(248, 5))
    log_own = np.where(dish < 0, -200.0, -10.0)
    for count, of_class in ((1, np.arange(248)), (2, np.arange(240))):
        own, group = rows[of_class], np.zeros(len(of_class), int)
        (components,), _ = library_background.fit_background_components(
            own, group, dish[of_class], log_own[of_class], 5.0, prior
        )
        assert len(components) == count


def test_a_small_subclass_has_no_background_component():
    _, _, components, _ = apart(0, 9, 30)
    assert [round(each.share, 2) for each in components] == [0.33] * 3
    rng, prior = np.random.default_rng(11), make_base(2)[0]
    dish = np.repeat([0, 1, 2], [100, 100, 8])
    rows = 20.0 * dish[:, None] + rng.normal(size=(208, 2))
    (components,), _ = library_background.fit_background_components(rows, 0 * dish, dish, np.zeros(208), 5.0, prior)
    assert [each.share for each in components] == [0.5, 0.5]


def test_an_instance_is_left_out_of_the_component_of_its_subclass():
    rows, dish, components, found = apart(0, 9)
    freedom, n = components[0].shape.freedom, len(rows)
    log_weight = np.log(5.0 / (n - 1.0 + 5.0))
    for i in (3, 150):
        own, other = (rows[(dish == k) & (np.arange(n) != i)] for k in (dish[i], 1 - dish[i]))
        each = [np.log(0.5) + oracle.log_density(rows[i], members, freedom) for members in (own, other)]
        assert found[i] == pytest.approx(np.logaddexp(-10.0, log_weight + np.logaddexp(*each)), rel=1e-9)


# Tails


def check_far(known, directions):
    """Far from everything a new subclass is likelier than each class."""
    far = homogeneous(1e7 * directions)
    log_density, _ = log_class_densities(known, densities(known), far)
    assert (log_density.max(axis=1) < log_new(known, far) - 5).all()


@pytest.mark.parametrize("placed", [False, True])
def test_what_lies_far_from_everything_belongs_to_no_class(placed):
    rows, group = labelled(seed=8, sizes=(100, 3, 1), d=3)
    prior = make_base(3, nu=23.0, psi=2.3, beta=0.1)[0]
    location = fit_location(rows, group)._replace(freedom=50.0) if placed else CONJUGATE
    space, rng = fit_whitening(rows, group), np.random.default_rng(9)
    training = library.train(rows, group, space, prior, rng, sweeps=2, location=location)
    known, _ = library.summarize(training, 0.0, background_components=True)
    assert known.background_components
    directions = np.concatenate([np.eye(3), np.random.default_rng(10).normal(size=(20, 3))])
    check_far(known, directions / np.linalg.norm(directions, axis=1, keepdims=True))


def test_heavy_tails_in_training_do_not_make_all_that_is_far_known():
    known, *_ = summary(d=2, sizes=(300, 200), dropped=(2, 2), nu=3.0, epsilon=0.01, heavy=True)
    least = 2.0 + library_background.FREEDOM_ABOVE[0]  # above that of a new subclass
    assert known.background_components[0][0].shape.freedom == least
    check_far(known, np.array([[1.0, 0.0], [0.0, -1.0], [1.0, 1.0]]))
