import pytest

from levyscreen.names import cell, file_name, printable


def test_a_name_that_shows_as_it_is_stays_as_it_is():
    for name in ("set-b", "Schröder 2012", "記録", "a\\b", "[red]", "=1+1", "👍"):
        assert printable(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_does_not_show_is_escaped(name, shown):
    assert printable(name) == shown


@pytest.mark.parametrize(
    ("name", "plain"),
    [("set-b", "set-b"), ("..", "cohort.."), ("", "cohort"), ("/etc/x", "_etc_x"), ("..\\x", ".._x"), ("a\nb", "a_nb")],
)
def test_a_file_name_stands_where_it_is_put(name, plain):
    assert file_name(name) == plain
    assert file_name(plain) == plain


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_formula_is_a_text_in_a_cell(text):
    assert cell(text) == f"'{text}"


def test_other_text_is_a_cell_as_it_is_and_never_two():
    assert cell("HR;MAP") == "HR;MAP"
    assert cell("\r=1") == "\\r=1"
