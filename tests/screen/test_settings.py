"""What a screening may be asked: how much to hide, by which seed, of a model calibrated at which levels."""

from dataclasses import replace

import numpy as np
import pytest

from levyscreen.errors import UsageError
from levyscreen.records.hiding import targets_of
from levyscreen.screen import ScreenSettings, screen, select


@pytest.mark.parametrize("hide", [0.3, 0.5, 0.9, 0.95])
def test_where_more_is_hidden_a_record_needs_the_more_readings(sample, shipped, hide):
    """As much is to be left as 30 % leaves of 20; with next to nothing left, records look the most trusted."""
    subjects = select(sample, shipped, ScreenSettings(hide=hide))
    expected = (subjects.readings.lengths >= 20) & (subjects.readings.lengths * (1 - hide) >= 14 - 1e-9)
    assert (subjects.status == "scored").tolist() == expected.tolist()
    assert (subjects.status[~expected & (subjects.readings.lengths > 0)] == "too_few").all()
    hidden = np.add.reduceat(subjects.maskings[0], subjects.readings.offsets[:-1][expected])
    assert (subjects.readings.lengths[expected] - hidden >= 14).all()


def test_a_record_of_which_nothing_is_hidden_has_too_few_and_is_no_failure_of_the_model(sample, shipped):
    scores = screen(sample, shipped, ScreenSettings(hide=0.02)).scores
    readings = shipped.preprocessor.apply(sample)
    targets = dict(zip(readings.record_id.tolist(), targets_of(readings).tolist(), strict=True))
    asked = [targets[record] * 0.02 >= 1 for record in scores["record_id"]]
    assert (scores["status"] == "scored").tolist() == asked
    assert "non_finite" not in set(scores["status"])


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_hiding_can_have_is_wrong_usage(seed):
    with pytest.raises(UsageError, match="a seed must lie between 0 and"):
        ScreenSettings(seed=seed)


def test_a_model_calibrated_at_other_levels_ranks_and_has_no_width(sample, shipped):
    name, calibration = next(iter(shipped.calibrations.items()))
    other = replace(calibration, levels=(0.5, 0.8, 0.95))
    scores = screen(sample, replace(shipped, calibrations={name: other})).scores
    assert scores["interval_width"].isna().all()
    assert (scores["status"] == "scored").sum() == 29
