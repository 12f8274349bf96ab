"""The scores against golden values, slow twins and numerical integration."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from levyscreen.calibrate import (
    ause,
    clustered_error,
    clustered_margin,
    coverage,
    crps_gaussian,
    crps_sample,
    flagged_excess,
    sparsification,
    spearman,
)
from levyscreen.errors import UsageError

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "scores.npz")
MEAN, SCALE, TARGET = GOLDEN["mean"], GOLDEN["scale"], GOLDEN["target"]
ERROR = np.abs(TARGET - MEAN)

# Few distinct values, so that ties are common.
pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(-6, 6)), min_size=1, max_size=40)


def slow_ause(signal, error):
    """The definition, a prefix at a time; what is left of tied ones is a share of each."""
    error = np.abs(np.asarray(error, dtype=float))

    def curve(by):
        by, heights = np.asarray(by), []
        for left in range(len(by), 0, -1):
            weight = np.array([np.clip((left - (by < x).sum()) / (by == x).sum(), 0, 1) for x in by])
            heights.append((weight * error).sum() / left)
        return heights

    return float(np.mean(curve(signal)) - np.mean(curve(error))) / error.mean()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_the_scores_reach_the_golden_values(dtype, tolerance):
    mean, scale, target, error = (x.astype(dtype) for x in (MEAN, SCALE, TARGET, ERROR))
    np.testing.assert_allclose(crps_gaussian(mean, scale, target), GOLDEN["crps"], rtol=0, atol=tolerance)
    assert ause(scale, error) == pytest.approx(float(GOLDEN["ause_of_scale"]), abs=tolerance)
    assert ause(-error, error) == pytest.approx(float(GOLDEN["ause_of_negated_error"]), abs=tolerance)
    assert ause(error, error) == GOLDEN["ause_of_error"] == 0
    assert spearman(scale, error) == pytest.approx(float(GOLDEN["spearman"]), abs=tolerance)


@pytest.mark.parametrize(("mean", "scale", "target"), [(0, 1, 0), (0.3, 0.5, -1.2), (2, 3, 2.5), (0, 0.1, 4)])
def test_crps_is_the_integral_of_the_squared_distance_to_the_step(mean, scale, target):
    from scipy.integrate import quad
    from scipy.special import ndtr

    below = quad(lambda x: ndtr((x - mean) / scale) ** 2, mean - 40 * scale, target, limit=500)[0]
    above = quad(lambda x: ndtr((mean - x) / scale) ** 2, target, max(target, mean) + 40 * scale, limit=500)[0]
    assert crps_gaussian(mean, scale, target) == pytest.approx(below + above, rel=1e-6)


def test_crps_is_that_of_scoringrules():
    import scoringrules

    rng = np.random.default_rng(5)
    mean, scale, target = rng.normal(size=200), rng.gamma(1, 1, 200), rng.normal(0, 3, 200)
    expected = scoringrules.crps_normal(target, mean, scale, backend="numpy")
    np.testing.assert_allclose(crps_gaussian(mean, scale, target), expected, rtol=1e-9, atol=1e-12)
    for k in (1, 2, 50):
        draws = mean + scale * rng.normal(size=(k, 200))
        expected = scoringrules.crps_ensemble(target, draws, m_axis=0, estimator="nrg", backend="numpy")
        np.testing.assert_allclose(crps_sample(draws, target), expected, rtol=1e-9, atol=1e-12)


def test_crps_of_a_point_prediction_is_its_absolute_error():
    np.testing.assert_array_equal(crps_gaussian([1.0, 2.0], 0.0, [4.0, 2.0]), [3.0, 0.0])
    np.testing.assert_allclose(crps_gaussian([1.0], [1e-300], [4.0]), [3.0])


def test_crps_refuses_a_negative_scale():
    with pytest.raises(UsageError, match=r"0 or more, got -0\.5"):
        crps_gaussian([0.0], [-0.5], [1.0])


@given(pairs)
def test_ause_equals_the_slow_twin_ties_included(values):
    signal, error = zip(*values, strict=True)
    if any(error):
        assert ause(signal, error) == pytest.approx(slow_ause(signal, error), abs=1e-12)
    else:
        assert ause(signal, error) == 0


@given(pairs)
def test_spearman_equals_scipys_and_is_0_for_a_constant(values):
    signal, error = zip(*values, strict=True)
    if len(set(signal)) > 1 and len({abs(e) for e in error}) > 1:
        assert spearman(signal, error) == pytest.approx(spearmanr(signal, np.abs(error)).statistic, abs=1e-12)
    else:
        assert spearman(signal, error) == 0


def test_ties_leave_as_the_mean_of_their_orders():
    """[2, 0] would leave 1, 0 and [0, 2] leave 1, 2: on average 1, 1, where the oracle leaves 1, 0."""
    assert ause([1, 1], [2, 0]) == ause([1, 1], [0, 2]) == pytest.approx(0.5)
    assert sparsification(np.ones(2), np.array([2.0, 0.0]), points=2) == [1, 1]


def test_coverage_counts_the_ends_and_infinite_intervals():
    assert coverage([0, 0, 0, 0], [1, 1, 1, np.inf], [1, -1, 1.5, 99]) == 0.75


def test_the_flagged_tenth_is_compared_with_the_mean_of_all():
    error = np.arange(1.0, 21.0)
    assert flagged_excess(error, error) == pytest.approx(19.5 / 10.5 - 1)
    assert flagged_excess(error, -error, fraction=1) == pytest.approx(0)
    assert flagged_excess([0.0, 1.0], [1.0, 3.0], fraction=0.01) == pytest.approx(0.5)  # at least one is flagged


def test_ties_at_the_edge_of_the_flagged_go_to_the_lower_id():
    signal, error = np.ones(10), np.arange(10.0)
    assert flagged_excess(signal, error) == pytest.approx(-1)
    assert flagged_excess(signal, error, ids=np.arange(10)[::-1]) == pytest.approx(9 / 4.5 - 1)


def test_where_there_is_no_error_nothing_can_be_ranked():
    assert ause([1, 2], [0, 0]) == flagged_excess([1, 2], [0, 0]) == spearman([1, 2], [0, 0]) == 0


@pytest.mark.parametrize("score", [ause, spearman, flagged_excess])
def test_bad_input_is_named(score):
    with pytest.raises(UsageError, match=r"signal \(2,\), error \(3,\)"):
        score([1, 2], [1, 2, 3])
    with pytest.raises(UsageError, match="1 of 2 values of signal are not finite"):
        score([1, np.nan], [1, 2])
    with pytest.raises(UsageError, match="no queries"):
        score([], [])


def test_a_fraction_outside_0_to_1_is_refused():
    with pytest.raises(UsageError, match=r"\(0, 1\], got 10"):
        flagged_excess([1.0], [1.0], fraction=10)


def test_with_one_value_a_cluster_the_clustered_error_is_the_binomial_one():
    inside = np.random.default_rng(0).random(500) < 0.9
    binomial = np.sqrt(inside.mean() * (1 - inside.mean()) / 499)
    assert clustered_error(inside, np.arange(500)) == pytest.approx(binomial)


def test_the_clustered_error_is_that_of_a_bootstrap_over_records():
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(200), rng.integers(1, 30, 200))
    inside = rng.random(len(cluster)) < np.clip(0.9 + 0.15 * rng.standard_normal(200), 0, 1)[cluster]
    total, count = np.bincount(cluster, inside), np.bincount(cluster)
    drawn = [total[rows].sum() / count[rows].sum() for rows in rng.integers(0, 200, (4000, 200))]
    assert clustered_error(inside, cluster) == pytest.approx(np.std(drawn), rel=0.06)
    assert clustered_error(inside, cluster) > 1.3 * clustered_error(inside, np.arange(len(cluster)))


def test_the_clustered_error_cares_neither_for_ids_nor_order():
    rng = np.random.default_rng(4)
    values, cluster, order = rng.random(100), rng.integers(0, 9, 100), rng.permutation(100)
    assert clustered_error(values[order], 7 * cluster[order] + 3) == pytest.approx(clustered_error(values, cluster))


def test_the_clustered_error_of_few_clusters_is_not_too_small():
    """Its square is the variance of the mean, on average over 4,000 draws of five clusters: within 4 %."""
    rng = np.random.default_rng(5)
    cluster = np.repeat(np.arange(5), 8)
    draws = [rng.standard_normal(5)[cluster] + rng.standard_normal(40) for _ in range(4000)]
    said = np.mean([clustered_error(values, cluster) ** 2 for values in draws])
    assert said == pytest.approx(1 / 5 + 1 / 40, rel=0.04)


def test_the_margin_holds_the_mean_in_95_of_100_draws_of_few_clusters_too():
    """Of four clusters, over 4,000 draws: a standard error of 0.35 %. Two standard errors hold it in 86 %."""
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(4), 5)
    draws = [rng.standard_normal(4)[cluster] + rng.standard_normal(20) for _ in range(4000)]
    assert np.mean([abs(x.mean()) < clustered_margin(x, cluster) for x in draws]) == pytest.approx(0.95, abs=0.011)


def test_one_cluster_says_nothing_of_others():
    assert np.isnan(clustered_margin([1.0, 0.0, 1.0], np.array([4, 4, 4])))
    assert np.isnan(clustered_error([1.0, 0.0, 1.0], np.array([4, 4, 4])))
