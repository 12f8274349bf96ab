"""Archives that no honest tool writes, built block by block where no tool would."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.faults.mutations import Draw
from tests.records.record_files import record

Members = Mapping[str, bytes]
Build = Callable[[Draw, Path, Members], None]

BLOCK = 512


def honest(draw: Draw) -> dict[str, bytes]:
    """Three records, in an order of their own."""
    ids = draw.permutation([7, 8, 9]).tolist()
    return {f"set/{i}.txt": record(i, f"00:07,HR,{60 + i}", "00:09,K,4.1").encode() for i in ids}


# Containers ---------------------------------------------------------------------------------------------------------


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """A member's header; what it says need not be true."""
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = size, kind, link
    return found


def block(info: tarfile.TarInfo, data: bytes = b"") -> bytes:
    """A header and data that stand in a tar as they are, filled up to whole blocks."""
    return info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape") + data + bytes(-len(data) % BLOCK)


def blocks(members: Members) -> list[bytes]:
    """Well-formed members."""
    return [block(header(name, len(data)), data) for name, data in members.items()]


def write_tar(draw: Draw, path: Path, parts: list[bytes], odd: bytes) -> None:
    """A tar with one odd part at some place of it, packed or plain as the path says."""
    place = int(draw.integers(len(parts) + 1))
    data = b"".join([*parts[:place], odd, *parts[place:], bytes(2 * BLOCK)])
    path.write_bytes(data if path.suffix == ".tar" else gzip.compress(data, 1))


def in_tar(odd: Callable[[Draw], bytes]) -> Build:
    """A tar with an odd part."""
    return lambda draw, path, members: write_tar(draw, path, blocks(members), odd(draw))


def in_zip(odd: Callable[[Draw, zipfile.ZipFile], None]) -> Build:
    """A zip into which something odd is written, first or last."""

    def build(draw: Draw, path: Path, members: Members) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            first = bool(draw.integers(2))
            if first:
                odd(draw, archive)
            for name, data in members.items():
                archive.writestr(name, data)
            if not first:
                odd(draw, archive)

    return build


def pick(draw: Draw, *choices: str) -> str:
    """One of them."""
    return choices[int(draw.integers(len(choices)))]


# Oddities -----------------------------------------------------------------------------------------------------------

BAD = record(66, "00:07,HR,99").encode()


def away(draw: Draw) -> str:
    """A path that leads out of the archive."""
    return pick(
        draw, "../66.txt", "set/../../66.txt", "/tmp/66.txt", "..\\66.txt", "C:\\66.txt", "\\\\host\\66.txt", "./../x"
    )


def link(draw: Draw) -> bytes:
    kind = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"M"][
        draw.integers(6)
    ]
    return block(header("66.txt", 0, kind, pick(draw, "/etc/passwd", "set/7.txt", "66.txt", "../..")))


def zip_link(draw: Draw, archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("66.txt")
    info.external_attr = (
        [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK][draw.integers(5)] | 511
    ) << 16
    archive.writestr(info, "/etc/passwd")


def pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return block(header("pax", len(records), kind), records)


def pax_record(key: str, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(str(length)) + len(key) + len(value) + 3 != length:
        length += 1
    return f"{length} {key}=".encode() + value + b"\n"


def huge_headers(draw: Draw) -> bytes:
    """Headers that hold, or ask for, more than any record: once, many times, or one inside the other."""
    kind = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK][draw.integers(4)]
    ending = block(header("66.txt", len(BAD)), BAD)
    many = pax(pax_record("comment", b"x" * 200_000), tarfile.XGLTYPE)
    choices = (
        lambda: block(header("name", 3 << 30, kind)),
        lambda: block(header("name", 40 << 20, kind), bytes(40 << 20)),
        lambda: pax(pax_record("comment", b"9" * (12 << 20))) + ending,
        lambda: many * 100 + ending,
        lambda: pax(pax_record("path", b"66.txt")) * 3000 + ending,
        lambda: block(header("name", 4, tarfile.GNUTYPE_LONGNAME), b"abc\0") * 3000 + ending,
    )
    return choices[int(draw.integers(len(choices)))]()


def impossible_headers(draw: Draw) -> bytes:
    """A size below zero or beyond all sense: a reader that believes it goes back, and round for ever."""
    size = int([-512, -1024, -(1 << 40), 1 << 60, 1 << 80][draw.integers(5)])
    kind = [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE][draw.integers(4)]
    asked = pax_record("size", pick(draw, "-512", "1e9", "99999999999999999999", "x").encode())
    return pax(asked) + block(header("66.txt")) if draw.integers(3) == 0 else block(header("66.txt", size, kind))


def sparse(draw: Draw) -> bytes:
    """A file of holes: a map that says nothing true, or a hole of a terabyte."""
    map_ = b"".join(b"%d\n" % n for n in [2, *draw.integers(-9, 1 << 40, 4).tolist()])
    size = pick(draw, "99", "1099511627776", "-5").encode()
    records = pax_record("GNU.sparse.major", b"1") + pax_record("GNU.sparse.minor", b"0")
    records += pax_record("GNU.sparse.name", b"66.txt") + pax_record("GNU.sparse.realsize", size)
    many = b"1048576\n" * (2 << 20)
    data = (many[: 1 << 24] if draw.integers(2) else map_).ljust(BLOCK, b"\0")
    return pax(records) + block(header("66.txt", len(data)), data)


def bomb(draw: Draw) -> bytes:
    """Zeros, as a record or as something beside the records."""
    return block(header(pick(draw, "66.txt", "66.bin"), 8 << 20), bytes(8 << 20))


def gzip_bomb(draw: Draw, path: Path, members: Members) -> None:
    """A tar in a gzip of which the end is nothing but zeros: one packed block of them, again and again."""
    start = gzip.compress(b"".join([*blocks(members), bytes(2 * BLOCK)]))
    path.write_bytes(start + gzip.compress(bytes(1 << 20)) * 99)


def zip_bomb(draw: Draw, archive: zipfile.ZipFile) -> None:
    archive.writestr(pick(draw, "66.txt", "66.bin"), bytes(8 << 20))


def nested(draw: Draw, archive: zipfile.ZipFile) -> None:
    """Bombs inside: nobody opens a zip in a zip."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("66.txt", bytes(1 << 20))
    for i in range(20):
        archive.writestr(f"{i}.zip", inner.getvalue())


def patched(field: int, value: bytes) -> Build:
    """A zip whose last member's entry in the directory, or the copy before its data, says something else."""

    def build(draw: Draw, path: Path, members: Members) -> None:
        in_zip(lambda _, archive: None)(draw, path, members)
        data = bytearray(path.read_bytes())
        place = data.rfind(b"PK\1\2") + field
        data[place : place + len(value)] = value
        path.write_bytes(data)

    return build


def strange_packing(draw: Draw, path: Path, members: Members) -> None:
    """A method that is unknown, or known to few; its data may be nonsense, its dictionary gigabytes."""
    method = int(draw.choice([1, 6, 9, 12, 14, 93, 95, 98, 99]))
    in_zip(lambda _, archive: None)(draw, path, members)
    data = bytearray(path.read_bytes())
    local, central = data.rfind(b"PK\3\4"), data.rfind(b"PK\1\2")
    data[local + 8 : local + 10] = data[central + 10 : central + 12] = method.to_bytes(2, "little")
    path.write_bytes(data)


ODD_NAMES = ("\udcff\udcfe", "x" * 90, "=1+1", "\x1b[31m", "[red]", "a\nb", "ä" * 40, "\u202ecod", " ", ".", "'; DROP")


def odd_names(draw: Draw) -> bytes:
    """Names that a terminal or a spreadsheet would obey, of bytes that are no text, very long, or empty."""
    return block(header(f"set/{pick(draw, *ODD_NAMES)}.txt", 4), b"none")


def odd_zip_names(draw: Draw, archive: zipfile.ZipFile) -> None:
    """The same of text alone, as a zip has it."""
    archive.writestr(f"set/{pick(draw, *ODD_NAMES[2:])}.txt", b"none")


def twins(draw: Draw) -> bytes:
    """The name and the record of a member that is there already."""
    return block(header("set/7.txt", len(BAD)), BAD.replace(b"RecordID,66", b"RecordID,7"))


def crowd(draw: Draw) -> bytes:
    return b"".join(block(header(f"crowd/{i}.bin")) for i in range(3000))


def zip_crowd(draw: Draw, archive: zipfile.ZipFile) -> None:
    for i in range(3000):
        archive.writestr(f"crowd/{i}.bin", b"")


TARS = ("x.tar", "x.tar.gz", "x.tgz")
REFUSED, NAMED, READ = "refused", "named", "read"
NEGATIVE = (2**32 - 1).to_bytes(4, "little")

# (name, file names, builder, what must come of it): refused as a whole; or the odd member named and the others read;
# or read, with the odd member a record like any other, or none.
KINDS: tuple[tuple[str, tuple[str, ...], Build, tuple[str, ...]], ...] = (
    ("a path that leads away", TARS, in_tar(lambda draw: block(header(away(draw), len(BAD)), BAD)), (REFUSED,)),
    ("a path that leads away", ("x.zip",), in_zip(lambda draw, archive: archive.writestr(away(draw), BAD)), (REFUSED,)),
    ("a link or device", TARS, in_tar(link), (REFUSED,)),
    ("a link or device", ("x.zip",), in_zip(zip_link), (REFUSED,)),
    ("huge headers", TARS, in_tar(huge_headers), (REFUSED,)),
    ("huge headers", ("x.tar",), in_tar(huge_headers), (REFUSED,)),
    ("impossible headers", TARS, in_tar(impossible_headers), (REFUSED, NAMED)),
    ("a sparse member", TARS, in_tar(sparse), (REFUSED, NAMED)),
    ("a bomb", ("x.tar.gz",), in_tar(bomb), (REFUSED,)),
    ("a bomb", ("x.tar.gz",), gzip_bomb, (REFUSED,)),
    ("a bomb", ("x.zip",), in_zip(zip_bomb), (REFUSED,)),
    ("a zip in a zip", ("x.zip",), in_zip(nested), (READ,)),
    ("a size too small", ("x.zip",), patched(24, b"\5\0\0\0"), (NAMED,)),
    ("a size too large", ("x.zip",), patched(24, b"\0\0\1\0"), (NAMED, READ)),
    ("a size of gigabytes", ("x.zip",), patched(24, NEGATIVE), (REFUSED,)),
    ("an encrypted member", ("x.zip",), patched(8, b"\1\0"), (NAMED,)),
    ("a version from the future", ("x.zip",), patched(6, b"\xff\0"), (REFUSED, NAMED)),
    ("strange packing", ("x.zip",), strange_packing, (NAMED,)),
    ("odd names", TARS, in_tar(odd_names), (NAMED, READ)),
    ("odd names", ("x.zip",), in_zip(odd_zip_names), (NAMED, READ)),
    ("a member twice", TARS, in_tar(twins), (NAMED,)),
    ("thousands of members", TARS, in_tar(crowd), (READ,)),
    ("thousands of members", ("x.zip",), in_zip(zip_crowd), (READ,)),
)
