"""The report says what the screening found, shows whatever names it is given, asks for nothing and is its owner's."""

import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import t

from levyscreen.calibrate import clustered_error
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.report import page
from levyscreen.report.asking import ask_again
from levyscreen.report.curves import intervals
from levyscreen.report.screened import NOTE, note, read_screened
from levyscreen.report.timelines import GRID, courses
from levyscreen.report.who import Outcomes
from levyscreen.timeline import Asker, ContinuumSettings
from tests.report.conftest import LIVE, RECORDS, digests

VOID = {"meta", "link", "br", "img"}


class Found(HTMLParser):
    """Tags with their attributes, the text of each, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def screened(folder):
    return read_screened(folder)


@pytest.fixture
def text(screened, cohort, model):
    return page.report(screened, cohort, model)


def flagged(screened):
    return screened.scores.loc[screened.scores["flagged"], "record_id"].tolist()


def test_every_flagged_patient_has_a_row_and_a_picture_in_the_order_of_distrust(screened, text):
    ids = flagged(screened)
    assert len(ids) == 8
    assert [a["id"] for a in Found(text).all("article")] == [f"r{i}" for i in ids]
    assert [a["href"] for a in Found(text).all("a") if a["href"].startswith("#r") and a["href"] != "#rejected"] == [
        f"#r{i}" for i in ids
    ]
    assert sum(a.get("class") == "timeline" for a in Found(text).all("svg")) == 8


def test_the_page_is_whole_asks_for_nothing_and_runs_nothing(text):
    found = Found(text)
    assert found.open == []
    assert not found.all("script")
    assert not found.all("img")
    for tag, attributes in found.tags:
        assert not {"style", "src", "srcset", "xlink:href"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#")[0] == "#" or attributes["href"] == "data:,"
    assert "default-src 'none'" in found.all("meta")[1]["content"]
    assert "url(" not in text
    assert "@import" not in text


def test_names_with_markup_are_shown_and_not_obeyed(text):
    assert LIVE not in text
    shown = "".join(Found(text).text)
    for what in (f"Least reliable predictions: {LIVE}", f"tiny {LIVE}", f"{LIVE}.txt, line 7", f"{LIVE}HR"):
        assert what in shown
    assert f"not text {LIVE}" in shown


def test_a_name_that_turns_the_direction_of_writing_is_escaped(screened, cohort, model):
    screened.provenance["cohort"] = "ward \u202e b\x1b[31m"
    text = page.report(screened, cohort, model, patients=0)
    assert "\u202e" not in text
    assert "ward \\u202e b\\x1b[31m" in text


def test_ids_of_elements_are_there_once_and_every_link_leads_to_one(text):
    found = Found(text)
    ids = [a["id"] for _, a in found.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in found.all("a")} <= set(ids)
    for svg in found.all("svg"):
        assert svg.get("aria-hidden") == "true" or set(svg["aria-labelledby"].split()) <= set(ids)
    assert all("scope" in a for a in found.all("th"))


def test_the_same_folder_gives_the_same_page(screened, cohort, model, text):
    assert page.report(screened, cohort, model) == text


def test_the_questions_are_the_screenings_own(screened, cohort, model):
    asked = ask_again(screened, cohort, model)
    scores = screened.scores[screened.scores["status"] == "scored"].set_index("record_id")
    rows = cohort.records.column("record_id").to_numpy()[asked.record]
    for column, values in (("uncertainty", asked.doubt), ("mae", asked.error)):
        means = {i: values[rows == i].mean() for i in np.unique(rows)}
        np.testing.assert_allclose(scores[column].to_numpy(float), [means[i] for i in scores.index], rtol=1e-5)


def test_a_course_is_drawn_from_the_readings_left_to_the_model_alone(screened, cohort, model):
    asked = ask_again(screened, cohort, model)
    assert asked.seen.record_id.tolist() == flagged(screened)
    row = int(np.flatnonzero(cohort.records.column("record_id").to_numpy() == flagged(screened)[1])[0])
    every = model.preprocessor.apply(cohort).lengths[row]
    assert asked.seen.lengths[1] + asked.hidden.lengths[1] == every
    record_id, (course,) = list(courses(model, asked, dict.fromkeys(flagged(screened), (f"{LIVE}HR",)), 0.9))[1]
    assert record_id == flagged(screened)[1]
    asker = Asker(model, ContinuumSettings(grid=GRID, with_deviation=True))
    alone = asker.ask(asked.seen.take(np.array([1]))).columns
    for name in ("prediction", "lower", "evidence"):
        np.testing.assert_allclose(getattr(course.panel, name), alone[name][0, 0], rtol=1e-4)
    assert len(course.hidden) == (asked.hidden.take(np.array([1])).variable == 0).sum()


def test_intervals_of_coverage_are_over_patients_and_not_over_their_records(screened, cohort, model):
    """Forty records of four patients: too few to say; of twenty: wider than of forty, where those are alike."""

    def of(each):
        column = pa.array([i // each for i in range(RECORDS)], pa.int64())
        place = cohort.records.schema.get_field_index("subject_id")
        records = cohort.records.set_column(place, cohort.records.schema.field(place), column)
        return page.report(screened, replace(cohort, records=records), model)

    assert "These records belong to 4 patients" in of(10)
    assert '%</td><td class="number">–</td></tr>' in of(10)
    assert "These records belong to 20 patients" in of(2)
    asked = ask_again(screened, cohort, model)
    inside = asked.error <= model.calibration.half_width(asked.scale, asked.variable, 0.9)
    error = t.ppf(0.975, 19) * clustered_error(inside.astype(float), asked.record // 2)
    low, high = 100 * (inside.mean() - error), min(100.0, 100 * (inside.mean() + error))
    assert f"{low:.1f} % to {high:.1f} %" in of(2)


def test_a_reading_without_an_interval_is_not_counted_inside_one(screened, cohort, model):
    """The variable with the most readings bounded, another not: it stands in no row, and how many there are is said."""
    asked = ask_again(screened, cohort, model)
    plain = model.calibration
    each = plain.quantiles_by_variable.copy()
    each[:, 0] = np.inf
    found = intervals(asked, asked.record, replace(plain, quantiles_by_variable=each))
    bounded = asked.variable != 0
    for row in found["rows"]:
        half = plain.half_width(asked.scale, asked.variable, row["level"])
        assert row["share"] == pytest.approx((asked.error <= half)[bounded].mean())
        assert row["without"] == (~bounded).sum() > 0
    assert plain.variables[0] not in [row["variable"] for row in found["variables"]]


def test_readings_that_the_model_takes_otherwise_are_told_among_the_rejected(screened, cohort, model):
    bare = cohort.variables.without_ranges()
    lines = replace(cohort.load(), value=np.where(np.arange(int(cohort.offsets[-1])) == 0, 1e9, cohort.value))
    columns = {c: cohort.records.column(c) for c in cohort.records.column_names}
    columns["n_negative"] = pa.array([0] * RECORDS, pa.int32())
    odd = replace(cohort, variables=bare, lines=lines, records=pa.table(columns, schema=cohort.records.schema))
    told = rejected_part(page.report(screened, odd, model))
    assert "1 reading of 1 variable outside what the model takes for plausible, not used: " in told
    assert "Every line of the files is a reading" not in told


def test_a_flagged_record_may_have_no_reason(screened, cohort, model):
    scores = screened.scores.copy()
    scores.loc[scores["record_id"] == flagged(screened)[0], "reason"] = np.nan
    text = page.report(replace(screened, scores=scores), cohort, model)
    assert 'no more conflict and no less evidence than the median patient</td><td class="number">1</td>' in text
    assert "nan" not in text


def rejected_part(text):
    return text.partition('<h2 id="rejected">')[2].partition("</section>")[0]


def test_fewer_patients_are_drawn_where_that_is_asked_or_the_page_would_be_too_large(
    screened, cohort, model, monkeypatch
):
    text = page.report(screened, cohort, model, patients=3)
    assert len(Found(text).all("article")) == 3
    assert "Shown: the 3 least trusted of 8 flagged patients" in text
    assert not Found(page.report(screened, cohort, model, patients=0)).all("article")
    monkeypatch.setattr(page, "MOST_PICTURE_BYTES", 15_000)
    assert 0 < len(Found(page.report(screened, cohort, model)).all("article")) < 8


def test_a_patients_picture_takes_few_bytes(text):
    assert max(len(part) for part in text.split('<svg class="timeline"')[1:-1]) < 15_000


def test_outcomes_make_a_group_of_their_own(screened, cohort, model):
    ids = screened.scores["record_id"].dropna().tolist()
    outcomes = Outcomes(f"death {LIVE}", {i: "yes" if i % 2 else "no" for i in ids})
    text = page.report(screened, cohort, model, outcomes, patients=0)
    assert f"outcome: death {LIVE}" in "".join(Found(text).text)
    assert "Outcomes were not given" not in text


def test_a_comparison_is_told_where_that_screening_ran_one_and_an_older_one_is_refused(folder, cohort, model):
    row = "MC dropout spread,20,12.5,17.25,0.526,0.268,0.3\n"
    head = "signal,passes,wall_clock_s,ratio,spearman,flagged_decile_excess,cohort_mae\n"
    (folder / "comparison.csv").write_text(head + row)
    with pytest.raises(UsageError, match=r"comparison\.csv is damaged, or of another screening"):
        read_screened(folder)
    note(folder, folder, "tiny", None, ["screen"], digests(folder))
    text = page.report(read_screened(folder), cohort, model, patients=0)
    assert "MC dropout spread" in text
    assert "+26.8 %" in text


# Refusals -----------------------------------------------------------------------------------------------------------


def test_another_cohort_or_model_than_the_screenings_is_refused(screened, cohort, model):
    with pytest.raises(UsageError, match=r"cohort .* is not what .*out was screened with: it changed"):
        page.report(screened, replace(cohort, fingerprint="other"), model)
    with pytest.raises(UsageError, match=r"model tiny .* is not what .*out was screened with"):
        page.report(screened, cohort, replace(model, digest="other"))
    name, calibration = next(iter(model.calibrations.items()))
    anew = replace(model, calibrations={name: replace(calibration, b=2 * calibration.b)})
    with pytest.raises(UsageError, match=r"the calibration of tiny .* is not what .*out was screened with"):
        page.report(screened, cohort, anew)


def test_a_report_of_records_that_the_model_was_calibrated_on_says_so(screened, cohort, model):
    said = "<strong>The model was {} on records of this cohort.</strong>"
    assert "on records of this cohort" not in page.report(screened, cohort, model)
    trained = replace(model, training={**model.training, "cohort_fingerprint": cohort.fingerprint})
    assert said.format("trained") in page.report(screened, cohort, trained)


def test_a_model_without_calibration_is_refused(screened, cohort, model):
    with pytest.raises(CalibrationError, match="not calibrated"):
        page.report(screened, cohort, replace(model, calibrations={}))


@pytest.mark.parametrize("name", [NOTE, "scores.parquet", "rejects.parquet", "timing.json"])
def test_a_folder_that_lacks_a_file_or_has_a_damaged_one_is_refused_by_that_files_name(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-20] + b"\xff" * 20)
    with pytest.raises(UsageError, match=rf"{name} is damaged.*: name a folder that levyscreen screen wrote"):
        read_screened(folder)
    path.unlink()
    with pytest.raises(UsageError, match=rf"{name} is missing: name a folder"):
        read_screened(folder)


def test_without_jinja_it_says_what_to_install(screened, cohort, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"pip install 'levyscreen\[report\]'"):
        page.report(screened, cohort, model)


# The file -----------------------------------------------------------------------------------------------------------


def test_the_file_is_its_owners_alone_even_where_an_older_one_was_open_to_all(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o644)
    page.write(path, "new – page")
    assert path.read_text(encoding="utf-8") == "new – page"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
