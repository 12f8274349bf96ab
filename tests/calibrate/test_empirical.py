"""The empirical law of residuals, against brute force and against the Gaussian whose draws the residuals are."""

import numpy as np
import pytest

from levyscreen.calibrate import EmpiricalLaw, crps_gaussian, law_of_variable
from levyscreen.errors import UsageError


def brute(atoms, weights, z):
    """E|R - z| - E|R - R'|/2, every pair of atoms."""
    weights = weights / weights.sum()
    apart = np.abs(atoms[:, None] - atoms[None])
    return np.abs(atoms - z) @ weights - 0.5 * weights @ apart @ weights


def test_the_score_is_that_of_every_pair_of_atoms():
    rng = np.random.default_rng(0)
    atoms, weights = np.round(rng.standard_t(3, 60), 1), rng.uniform(0.1, 2, 60)  # with ties
    targets = np.concatenate([rng.normal(0, 3, 20), atoms[:5], [-40, 40]])
    got = EmpiricalLaw.of(atoms, weights).crps(targets)
    np.testing.assert_allclose(got, [brute(atoms, weights, z) for z in targets], rtol=1e-12, atol=1e-12)


def test_the_score_is_the_integral_of_the_squared_difference_of_distributions():
    atoms = np.array([-1.0, 0.2, 0.5, 2.0])
    grid = np.linspace(-4, 4, 800_001)
    share = (atoms[None] <= grid[:, None]).mean(1)
    for target in (-2.3, 0.3, 1.7):
        area = np.sum((share - (grid >= target)) ** 2) * (grid[1] - grid[0])
        assert EmpiricalLaw.of(atoms).crps(np.array([target]))[0] == pytest.approx(area, abs=1e-4)


def test_of_normal_residuals_it_is_the_gaussian_closed_form():
    law = EmpiricalLaw.of(np.random.default_rng(1).standard_normal(100_000))
    targets = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(law.crps(targets), crps_gaussian(0, 1, targets), atol=0.01)
    assert law.quantile(0.975) == pytest.approx(1.96, abs=0.03)


def test_one_atom_scores_the_distance_to_it():
    np.testing.assert_allclose(EmpiricalLaw.of([0.5]).crps(np.array([-1.0, 0.5, 2.0])), [1.5, 0, 1.5])


def test_a_quantile_is_the_least_atom_that_the_share_reaches():
    law = EmpiricalLaw.of(np.arange(1.0, 11.0))
    assert [law.quantile(level) for level in (0, 0.1, 0.11, 0.3, 0.5, 0.95, 1)] == [1, 1, 2, 3, 5, 10, 10]
    assert EmpiricalLaw.of([1.0, 2.0], [3.0, 1.0]).quantile(0.7) == 1


def test_a_variables_law_is_its_own_and_that_of_all_by_the_weight_of_its_targets():
    residuals, variable = np.array([0.0, 1, 2, 10, 20]), np.array([0, 0, 0, 1, 1])
    own = 2 / 52
    law = law_of_variable(residuals, variable, 1)
    of_atom = {a: law.weights[law.atoms == a].sum() for a in residuals}
    assert of_atom == pytest.approx({a: (1 - own) / 5 + (own / 2 if a >= 10 else 0) for a in residuals})
    lacking = law_of_variable(residuals, variable, 2)
    np.testing.assert_array_equal(lacking.atoms, residuals)
    np.testing.assert_allclose(lacking.weights, 0.2)


def test_a_variable_with_many_targets_has_its_own_tails():
    rng = np.random.default_rng(2)
    residuals, variable = np.concatenate([rng.standard_normal(20_000), rng.exponential(1, 20_000)]), np.arange(40_000)
    law = law_of_variable(residuals, variable // 20_000, 1)
    assert law.quantile(0.05) > -0.05
    assert law.quantile(0.975) == pytest.approx(-np.log(0.025), rel=0.05)


def test_no_residuals_or_one_that_is_no_number_is_refused():
    with pytest.raises(UsageError, match="no queries to score"):
        EmpiricalLaw.of([])
    with pytest.raises(UsageError, match="not finite"):
        EmpiricalLaw.of([0.0, np.nan])
