from __future__ import annotations

import pytest

from levyscreen.errors import RecordError
from levyscreen.records.grammar import body_of, judge_parameter, judge_time, judge_value, lines_of, parameter_codes
from levyscreen.types import LineClass
from levyscreen.variables import PHYSIONET2012

CODES = parameter_codes(PHYSIONET2012)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        *[("00:00", 0), ("00:07", 7), (" 47:59\t", 2879), ("48:00", 2880)],
        *[("9:05", 545), ("0:07", 7), ("00:07:00", 7), ("10:00:30", 600.5), ("48:00:00", 2880)],
    ],
)
def test_a_time_within_the_stay_is_minutes(text: str, minutes: float) -> None:
    assert judge_time(text, 48) == (minutes, LineClass.READING)


@pytest.mark.parametrize("text", ["48:01", "99:59", "100:00", "48:00:01"])
def test_a_time_after_the_stay_is_named_so(text: str) -> None:
    assert judge_time(text, 48)[1] == LineClass.OUTSIDE_STAY


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":07",
        "00:60",
        "00:7",
        "-1:00",
        "00:07:60",
        "00:07:0",
        "0:7:00",
        "0007",
        "٠٠:٠٧",
        "00:07\x0b",
        "+0:07",
        "1:00:00.5",
    ],
)
def test_any_other_time_is_bad(text: str) -> None:
    assert judge_time(text, 48)[1] == LineClass.BAD_TIME


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.25e+04", 12500.0),
        ("-1", -1.0),
        (".5", 0.5),
        ("5.", 5.0),
        (" 7 ", 7.0),
        ("+3", 3.0),
        ("1E-2", 0.01),
        ("007", 7.0),
        ("1e-400", 0.0),
    ],
)
def test_every_notation_of_a_float_is_read(text: str, value: float) -> None:
    assert judge_value(text) == (value, LineClass.READING)


@pytest.mark.parametrize(
    "text",
    ["", "   ", "7_3", "0x1F", "٣٧", "７", "1,5", "1e", "e5", ".", "--1", "high", "1 2", "5\x0b", "5\xa0", '"5"', "1f"],
)
def test_what_python_or_c_would_take_besides_is_not_a_number(text: str) -> None:
    assert judge_value(text)[1] == LineClass.NOT_A_NUMBER


@pytest.mark.parametrize("text", ["1e400", "-1e400", "nan", "NaN", "-nan", "inf", "+Inf", "-infinity", "9" * 400])
def test_a_number_that_is_not_finite_is_named_so(text: str) -> None:
    assert judge_value(text)[1] == LineClass.NOT_FINITE


def test_minus_zero_is_zero() -> None:
    assert str(judge_value("-0.0")[0]) == "0.0"


def test_parameters_are_known_by_their_exact_name() -> None:
    assert judge_parameter(" HR", CODES) == (PHYSIONET2012.names.index("HR"), LineClass.READING)
    assert judge_parameter("Weight", CODES)[1] == LineClass.READING
    assert judge_parameter("hr", CODES)[1] == LineClass.UNKNOWN_PARAMETER
    assert judge_parameter('"HR"', CODES)[1] == LineClass.UNKNOWN_PARAMETER
    assert judge_parameter(" \t", CODES)[1] == LineClass.BLANK_PARAMETER


@pytest.mark.parametrize(
    "text",
    [
        "Time,Parameter,Value\n00:00,HR,70\n",
        "Time,Parameter,Value\r\n00:00,HR,70\r\n",
        "Time,Parameter,Value\r00:00,HR,70",
        "\ufeffTime,Parameter,Value\n00:00,HR,70",
        "Time, Parameter , Value\t\n00:00,HR,70  \n\n \t\n",
    ],
)
def test_line_ends_marks_and_trailing_blanks_change_nothing(text: str) -> None:
    assert body_of(text.encode()) == b"00:00,HR,70\n"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"00:00,HR,70\n", "the first line is not Time,Parameter,Value"),
        (b"time,parameter,value\n", "the first line is not Time,Parameter,Value"),
        (b"Time,Parameter,Value,Unit\n", "the first line is not Time,Parameter,Value"),
        ("Time,Parameter,Value\n".encode("utf-16"), "not UTF-8 text"),
        (b"Time,Parameter,Value\n00:00,HR,7\xff0\n", "not UTF-8 text"),
    ],
)
def test_a_file_without_a_header_or_in_another_encoding_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(RecordError, match=f"^{problem}$"):
        body_of(data)


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("xx:00,Foo", LineClass.MALFORMED),
        ("xx:00,Foo,bar", LineClass.BAD_TIME),
        ("50:00,Foo,bar", LineClass.OUTSIDE_STAY),
        ("01:00,Foo,bar", LineClass.UNKNOWN_PARAMETER),
        ("01:00,,bar", LineClass.BLANK_PARAMETER),
        ("01:00,HR,bar", LineClass.NOT_A_NUMBER),
    ],
)
def test_a_line_ends_in_the_first_class_that_applies(line: str, refusal: LineClass) -> None:
    assert [x.refusal for x in lines_of(f"{line}\n".encode(), CODES, 48)] == [refusal]


def test_lines_keep_their_number_across_blank_lines() -> None:
    assert [x.number for x in lines_of(b"00:00,HR,1\n\n  \n00:01,HR,2\n", CODES, 48)] == [2, 5]
