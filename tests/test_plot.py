"""The picture of one record shows what the model knew, said and doubted, and refuses where it has nothing to claim."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from levyscreen import questions
from levyscreen.calibrate import fit_calibration
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.model.network import build
from levyscreen.plot import ask, draw
from levyscreen.records.hiding import hide
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.store import Model
from levyscreen.timeline import Asker, ContinuumSettings
from tests.learn.tiny import MODEL, PROTOCOL, VARIABLES, cohort_of, tiny_cohort

CPU = torch.device("cpu")
FEW = [(1.0, 0, 80.0)] * 3


@pytest.fixture(scope="module")
def cohort():
    return tiny_cohort(20)


@pytest.fixture(scope="module")
def model(cohort):
    """A random network, calibrated."""
    preprocessor = Preprocessor.fit(cohort, np.arange(len(cohort)), VARIABLES, PROTOCOL)
    network = build(MODEL, 0).eval()
    readings = preprocessor.apply(cohort)
    answers = questions.joined([a for _, a in questions.ask(network, readings, hide(readings, 0.3, 0), CPU)])
    calibration = fit_calibration(
        answers.deviation,
        "deviation",
        answers.prediction,
        answers.truth,
        answers.variable,
        VARIABLES.names,
        by="nothing",
    )
    return Model("tiny", Path("tiny"), "", network, preprocessor, {"deviation": calibration}, {})


def values_axes(figure):
    return figure.axes[::2]


def labelled(axis):
    return {artist.get_label(): artist for artist in [*axis.lines, *axis.collections]}


def test_the_three_variables_with_the_most_readings_are_drawn_with_name_meaning_and_unit(cohort, model):
    panels = ask(cohort, model, 4)
    counts = [len(panel.reading) for panel in panels]
    of_variable = np.bincount(model.preprocessor.apply(cohort).take(np.array([3])).variable)
    assert of_variable[1] > 0
    of_variable[1] = 0  # MechVent never varies: a course of it says nothing
    assert counts == sorted(of_variable)[::-1][:3]
    axes = values_axes(draw(cohort, model, 4))
    meanings = [f"{panel.variable.name}, {panel.variable.meaning}" for panel in panels]
    assert [axis.get_title(loc="left") for axis in axes] == meanings
    assert [axis.get_ylabel() for axis in axes] == [panel.variable.unit for panel in panels]


def test_dots_are_the_records_readings_in_their_unit(cohort, model):
    axis = values_axes(draw(cohort, model, 4, ["Temp"]))[0]
    dots = labelled(axis)["readings, all known to the model"]
    lines = slice(cohort.offsets[3], cohort.offsets[4])
    temperature = (cohort.variable[lines] == 2) & (cohort.value[lines] >= 0)
    np.testing.assert_allclose(dots.get_xdata(), cohort.time_hours[lines][temperature], rtol=1e-6)
    np.testing.assert_allclose(dots.get_ydata(), cohort.value[lines][temperature], rtol=1e-6)


def test_line_and_band_are_the_continuum_of_that_record(cohort, model):
    axis = values_axes(draw(cohort, model, 4, ["HR"], level=0.8))[0]
    settings = ContinuumSettings(variables=("HR",), level=0.8, with_deviation=True)
    expected = Asker(model, settings).ask(model.preprocessor.apply(cohort).take(np.array([3]))).columns
    line = labelled(axis)["prediction"]
    np.testing.assert_allclose(line.get_ydata(), expected["prediction"][0, 0], rtol=1e-5)
    band = labelled(axis)["interval calibrated at 80 %"].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(expected["lower"].min(), rel=1e-5)
    assert band.max() == pytest.approx(expected["upper"].max(), rel=1e-5)


def test_panels_come_in_the_order_asked_each_with_its_own_answer(cohort, model):
    both = ask(cohort, model, 4, ["Temp", "HR", "Temp"])
    assert [panel.variable.name for panel in both] == ["Temp", "HR"]
    alone = [ask(cohort, model, 4, [name])[0] for name in ("Temp", "HR")]
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_allclose(one.prediction, other.prediction, rtol=1e-5)


def test_a_figure_is_a_png_without_a_display_and_without_global_state(cohort, model, tmp_path):
    draw(cohort, model, 4).savefig(tmp_path / "record.png")
    assert (tmp_path / "record.png").read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules


def test_a_variable_without_a_finite_interval_is_drawn_without_a_band(cohort, model):
    calibration = model.calibrations["deviation"]
    unbounded = replace(calibration, quantiles_by_variable=np.full_like(calibration.quantiles_by_variable, np.inf))
    figure = draw(cohort, replace(model, calibrations={"deviation": unbounded}), 4, ["HR"])
    figure.canvas.draw()
    assert "too rare in the calibration for a band" in values_axes(figure)[0].get_title(loc="left")
    assert np.isfinite(values_axes(figure)[0].get_ylim()).all()


def test_a_variable_without_a_reading_is_predicted_all_the_same_and_said_to_be_without(model):
    figure = draw(cohort_of([[(float(hour), 0, 80.0) for hour in range(12)]]), model, 1, ["HR", "pH"])
    figure.canvas.draw()
    hr, ph = values_axes(figure)
    assert ph.get_title(loc="left") == "pH, arterial pH (never measured in this record)"
    assert hr.get_position().height == pytest.approx(ph.get_position().height)


@pytest.mark.parametrize("record", [999, -1])
def test_an_unknown_record_is_refused_with_where_to_look(cohort, model, record):
    with pytest.raises(UsageError, match="no such record in cohort tiny: its ids are in the column record_id"):
        draw(cohort, model, record)


def test_an_unknown_variable_is_refused_with_the_known_ones(cohort, model):
    with pytest.raises(UsageError, match="unknown variable 'Pulse': this model knows HR, MechVent, Temp, pH"):
        draw(cohort, model, 4, ["Pulse"])


def test_a_record_with_too_few_readings_is_refused(model):
    with pytest.raises(UsageError, match="fewer than 10 readings, too few"):
        draw(cohort_of([FEW]), model, 1)


def test_an_unreadable_record_is_refused_with_its_problem_and_without_its_name(model):
    cohort = cohort_of([FEW])
    column = cohort.records.schema.get_field_index("problem")
    records = cohort.records.set_column(column, cohort.records.schema.field(column), pa.array(["not text"]))
    with pytest.raises(UsageError, match=r"^this record is unreadable: not text$"):
        draw(replace(cohort, records=records), model, 1)


def test_only_the_record_that_is_drawn_is_read(cohort, model, monkeypatch):
    asked, apply = [], Preprocessor.apply

    def spy(self, part):
        asked.append(len(part))
        return apply(self, part)

    monkeypatch.setattr(Preprocessor, "apply", spy)
    draw(cohort, model, 4)
    assert asked == [1]


def test_a_model_without_calibration_or_level_is_refused(cohort, model):
    with pytest.raises(CalibrationError, match="not calibrated"):
        draw(cohort, replace(model, calibrations={}), 4)
    with pytest.raises(CalibrationError, match=r"no interval at level 0\.5"):
        draw(cohort, model, 4, level=0.5)


def test_without_matplotlib_it_says_what_to_install(cohort, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'levyscreen\[plot\]'"):
        draw(cohort, model, 4)


def test_a_name_that_matplotlib_would_typeset_is_drawn_as_it_is(cohort, model):
    odd = replace(cohort, name="$\\frac{$ \x1b[31m")
    figure = draw(odd, replace(model, name="$x$"), 4, ["HR"])
    assert figure.get_suptitle() == "Record 4 of $\\frac{$ \\x1b[31m, model $x$"
    figure.savefig(io.BytesIO(), format="png")
