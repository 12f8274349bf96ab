"""Record files with every oddity that real and foreign files were seen to have, and with some that nobody has seen."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.records.record_files import HEAD

# Byte order marks, NUL, quotes, what Unicode or Python take for the end of a line, what spreadsheets write for nothing.
HOSTILE = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "\t",
            '"',
            '"HR',
            "\ufeff",
            "\x00",
            "\x0b",
            "\x1c",
            "\x85",
            "\u2028",
            "NA",
            "null",
            "#N/A",
            "x" * 9000,
        ]
    ),
    st.text(st.characters(exclude_characters="\n\r,", exclude_categories=["Cs"]), max_size=4),
)
TIMES = st.one_of(
    st.sampled_from(["00:00", "00:07", "13:59", "48:00", "48:01", "048:00", "100:00", "00:60", "0:07", "-1:00"]),
    st.sampled_from([" 00:07", "\ufeff00:07", "00:07:00", "47:59:59", "48:00:01", "9:05", "00:07:60", "٠٠:٠٧"]),
    HOSTILE,
)
PARAMETERS = st.one_of(
    st.sampled_from(
        ["HR", "pH", "Temp", "NISysABP", "Urine", "Age", "Weight", "Height", "RecordID", "hr", " HR ", "Foo"]
    ),
    HOSTILE,
)
VALUES = st.one_of(
    st.sampled_from(["70", "-1", "735", "7.35", "0", "-0.0", "-17.8", "1.25e+04", "1E-2", ".5", "5.", "+5", "007"]),
    st.sampled_from(
        ["1e400", "-1e400", "1e-400", "nan", "inf", "7_3", "0x1F", "٣٧", "７", "1 2", "--1", "1e", "9" * 400]
    ),
    st.floats(width=32).map(str),
    HOSTILE,
)
GOOD_LINE = st.tuples(TIMES, PARAMETERS, VALUES).map(",".join)
# The same time and variable again and again, as in one row of 450 of the real files.
TWICE = st.lists(VALUES, min_size=2, max_size=4).map(lambda values: "\n".join(f"00:07,Urine,{v}" for v in values))
LINE = st.one_of(GOOD_LINE, GOOD_LINE, GOOD_LINE, TWICE, st.lists(HOSTILE, max_size=5).map(",".join))
END = st.sampled_from(["\n", "\r\n", "\r", " \t\n", "\n\n"])
BODY = st.lists(st.tuples(LINE, END).map("".join), max_size=12).map("".join)
UNENDED = st.tuples(BODY, LINE).map("".join)
HEADERS = st.sampled_from([HEAD, "\ufeff" + HEAD, HEAD.strip() + "\r\n", "Time , Parameter,\tValue\r"])
TEXT = st.tuples(HEADERS, st.one_of(BODY, UNENDED)).map("".join)

OTHER_HEADERS = st.sampled_from(
    ["", "\n", "Time,Parameter\n", "time,parameter,value\n", "\ufeff\ufeff" + HEAD, '"' + HEAD]
)
# Whole files as bytes: well-formed in the main, or with another header, in another encoding, or no text at all.
FILE = st.one_of(
    TEXT.map(str.encode),
    TEXT.map(str.encode),
    st.tuples(OTHER_HEADERS, BODY).map("".join).map(str.encode),
    TEXT.map(lambda text: text.encode("utf-16")),
    TEXT.map(lambda text: text.encode("latin-1", "replace")),
    st.tuples(TEXT.map(str.encode), st.binary(max_size=8)).map(b"".join),
)
NAMES = st.sampled_from(["7.txt", "8.txt", "9.txt", "007.txt", "x.txt", "=7.txt", "7 .txt"])
FILES = st.dictionaries(NAMES, FILE, min_size=1, max_size=5)
