"""The bytes of the record files of a folder, a tar or a zip: one file at a time, in bounded memory, nothing extracted.

A member of an archive is never written to disk, so a hostile name cannot escape; it is refused all the same, because
an archive that holds one was not made by an honest tool and its other members deserve no trust either.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, cast

from levyscreen.errors import CohortError
from levyscreen.names import expanded, file_name, printable

# A line for each minute of 48 hours and each of 36 variables makes 1.5 MB; the longest real file has 20 kB.
MAX_RECORD_BYTES = 4 << 20
MAX_ARCHIVE_BYTES = 4 << 30  # unpacked; set-b has 28 MB
MAX_RATIO = 200  # unpacked to packed; record files reach 6, a bomb of zeros 1,000
FREE_BYTES = 256 << 20  # the ratio is asked only beyond this, so that a small, very regular cohort passes
# Of a member's headers in a tar: a path has 4 kB at most. Before Python 3.11.10 and 3.12.6, tarfile searches them for a
# time that grows with the square of their length, and any tarfile reads headers of headers one inside the other.
MAX_HEADERS = 16 << 10
_ZIP_END = 22  # bytes of what ends a zip, a comment of up to 64 kB aside
_MANY = 0xFFFF  # entries or more: their number stands elsewhere
_UNKNOWN = "encrypted or packed in a way that is not known"
# What the standard library raises, its own errors aside, where an archive's bytes make no sense.
_DAMAGE = (EOFError, OSError, zlib.error, struct.error, ValueError, OverflowError, LookupError, RecursionError)
DOCUMENTS = ("changelog", "citation", "license", "licence", "md5sums", "notice", "readme", "sha256sums")  # as .txt
OWN_RESULTS = "levyscreen-out"  # where results go by default, of a screening from within a cohort's folder too
_OUTCOMES = re.compile(r"outcomes?([-_ ].*)?\.txt$", re.IGNORECASE)
ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")


@dataclass(frozen=True)
class RecordFile:
    """One record file: its bytes, or the reason why there are none."""

    name: str  # own file name, no folder
    data: bytes = b""
    problem: str | None = None
    path: str = ""  # within its archive: orders two members of one name


class Stamp(NamedTuple):
    """What the folder tells about a file without opening it."""

    name: str
    size: int
    mtime_ns: int
    ctime_ns: int  # set by the system: changes even where an edit puts the modification time back
    problem: str | None


@dataclass(frozen=True)
class Source:
    """Where the record files of a cohort are; `stamps` change whenever a file of it is edited, added or removed."""

    path: Path
    name: str  # of the folder or archive, without endings
    stamps: tuple[Stamp, ...]  # of each record file of a folder, by name; of the archive itself
    is_archive: bool


def open_source(path: str | os.PathLike[str]) -> Source:
    """List a folder's record files, or look at an archive from outside; reads none of them.

    Raises CohortError if nothing is there, or it is neither a folder nor an archive, or the folder holds no record.
    """
    where = expanded(path)
    try:
        found = where.stat()
        if stat.S_ISDIR(found.st_mode):
            return Source(where, file_name(where.resolve().name), _scan(where), is_archive=False)
    except FileNotFoundError:
        raise CohortError(f"{where}: no such folder or archive; check the path, or the current folder") from None
    except OSError as error:
        raise CohortError(f"{where}: cannot be opened: {error.strerror}") from error
    ending = next((e for e in ENDINGS if where.name.lower().endswith(e)), None)
    if ending is None or not stat.S_ISREG(found.st_mode):
        its_folder = " such as the one that it is in" if is_record_name(where.name) else ""
        raise CohortError(
            f"{where}: not a cohort; give a folder of record files{its_folder}, or a {', '.join(ENDINGS)} of one, a "
            "mapping of your own tables (levyscreen map makes it), or a Parquet cohort"
        )
    stamp = Stamp(printable(where.name), found.st_size, found.st_mtime_ns, found.st_ctime_ns, None)
    return Source(where, file_name(where.name[: -len(ending)] or where.name), (stamp,), is_archive=True)


@dataclass
class Others:
    """What an archive holds besides record files; hidden files aside."""

    files: int = 0
    one: str = ""

    def see(self, path: str) -> None:
        """A file that is no record."""
        if not _is_hidden(path):
            self.files, self.one = self.files + 1, self.one or path

    def note(self, source: Source) -> list[str]:
        """What to say of them: nothing, or one line."""
        if not self.files:
            return []
        return [_not_read(f"{self.files} file{'s' * (self.files != 1)}", source.path.name, self.one)]


def read_source(source: Source, others: Others | None = None) -> Iterator[RecordFile]:
    """Each record file of a cohort, one at a time; a file that cannot be read comes with its problem.

    `others` sees what else is in an archive; of a folder see `passed_over`.

    Raises CohortError if the archive is damaged, not to be trusted, too large, or holds no record file.
    """
    if not source.is_archive:
        yield from (_read_file(source.path, stamp) for stamp in source.stamps)
        return
    members = _zip_members if source.path.name.lower().endswith(".zip") else _tar_members
    empty = True
    for record in members(source.path, others or Others()):
        empty = False
        yield record
    if empty:
        raise CohortError(f"{source.path}: no record file in this archive; they are named like 132539.txt")


def is_record_name(path: str) -> bool:
    """Whether a member's path names a record file: *.txt, neither hidden nor a macOS companion (._*).

    Outcomes-a.txt and the like lie beside the records of PhysioNet 2012, and documents beside any.
    """
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".txt") and not _is_hidden(path) and not is_document(name) and not _OUTCOMES.match(name)


def is_document(name: str) -> bool:
    """Whether a text is about the data beside it."""
    return name.lower().removesuffix(".txt") in DOCUMENTS


def _is_hidden(path: str) -> bool:
    return any(p.startswith(".") and p != "." for p in path.split("/"))


def passed_over(folder: Path) -> str | None:
    """A note on what a folder holds besides record files; None for nothing, and where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            seen = [e for e in entries if not is_record_name(e.name) and not e.name.startswith(".")]
            folders = sorted(e.name for e in seen if e.is_dir() and e.name != OWN_RESULTS)
    except OSError:
        return None
    files = sorted({e.name for e in seen} - {*folders, OWN_RESULTS})
    counts = [f"{len(of)} {what}{'s' * (len(of) != 1)}" for what, of in (("file", files), ("folder", folders)) if of]
    if not counts:
        return None
    note = _not_read(" and ".join(counts), folder.resolve().name, (files + folders)[0])
    return f"{note}, and lie in the folder itself"


def _not_read(what: str, where: str, one: str) -> str:
    return f"{what} in {printable(where)} not read, such as {printable(one)}: record files are named like 132539.txt"


# Folders ------------------------------------------------------------------------------------------------------------


def _scan(folder: Path) -> tuple[Stamp, ...]:
    with os.scandir(folder) as entries:
        stamps = sorted(_stamp(entry) for entry in entries if is_record_name(entry.name))
    if not stamps:
        raise CohortError(f"{folder}: no record file in this folder; they are named like 132539.txt{_hint(folder)}")
    return tuple(stamps)


def _hint(folder: Path) -> str:
    inside = (p for p in sorted(folder.iterdir()) if p.name.endswith(ENDINGS) or _holds_records(p))
    meant = next(inside, None)
    return "" if meant is None else f"; did you mean {printable(meant.name)} in it?"


def _holds_records(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(is_record_name(entry.name) for entry in entries)
    except OSError:  # no folder, or not to be looked into
        return False


def _stamp(entry: os.DirEntry[str]) -> Stamp:
    try:
        found = entry.stat()
    except OSError as error:  # a link to nothing, a loop of links
        return Stamp(entry.name, 0, 0, 0, f"cannot be read: {error.strerror}")
    problem = None if stat.S_ISREG(found.st_mode) else "not a regular file"
    return Stamp(entry.name, found.st_size, found.st_mtime_ns, found.st_ctime_ns, problem)


def _read_file(folder: Path, stamp: Stamp) -> RecordFile:
    name, problem = printable(stamp.name), stamp.problem or _too_large(stamp.size)
    if problem:
        return RecordFile(name, problem=problem)
    try:
        with open(os.path.join(folder, stamp.name), "rb", buffering=0) as stream:
            data = stream.read(stamp.size + 1) or b""
    except OSError as error:
        return RecordFile(name, problem=f"cannot be read: {error.strerror}")
    if len(data) != stamp.size:
        return RecordFile(name, problem="changed while it was read")
    return RecordFile(name, data)


def _too_large(size: int) -> str | None:
    return f"larger than {MAX_RECORD_BYTES >> 20} MiB, no record is" if size > MAX_RECORD_BYTES else None


# Archives -----------------------------------------------------------------------------------------------------------


def _refuse(archive: Path, why: str) -> CohortError:
    return CohortError(f"{archive}: refused, {why}; if you trust it, unpack it and give the folder")


def _check_member(archive: Path, name: str, is_plain: bool) -> None:
    parts = re.split(r"[/\\]", name)
    if not parts[0] or re.match("[A-Za-z]:", name):
        raise _refuse(archive, "it holds an absolute path")
    if ".." in parts:
        raise _refuse(archive, "it holds a path that leads out of it (..)")
    if not is_plain:
        raise _refuse(archive, "it holds a link or a device")


def _check_size(archive: Path, unpacked: int, packed: int) -> None:
    if unpacked > MAX_ARCHIVE_BYTES:
        raise _refuse(archive, f"it unpacks to more than {MAX_ARCHIVE_BYTES >> 30} GiB")
    if unpacked > FREE_BYTES and unpacked > MAX_RATIO * packed:
        raise _refuse(archive, f"it unpacks to more than {MAX_RATIO} times its size")


class _Bounded:
    """A stream that counts what has been unpacked, and stops at the limits; forward only, as tarfile reads it."""

    def __init__(self, stream: IO[bytes], archive: Path) -> None:
        self.stream, self.archive, self.packed = stream, archive, archive.stat().st_size
        self.left = MAX_HEADERS  # bytes that may be read before there is a new allowance
        self.last = b""  # what was read last

    def allow(self, size: int) -> None:
        """Let so many bytes be read from here on, what is skipped aside."""
        self.left = size

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise _refuse(self.archive, "its headers are larger than any record's")
        self.left -= size
        _check_size(self.archive, self.stream.tell() + size, self.packed)
        self.last = self.stream.read(size)
        return self.last

    def seek(self, position: int) -> int:
        if position < self.tell():
            raise _refuse(self.archive, "its headers lead backwards")
        _check_size(self.archive, position, self.packed)
        return self.stream.seek(position)

    def tell(self) -> int:
        return self.stream.tell()

    def finish(self) -> None:
        """Read to the end, without which nobody looks at the checksum of a gzip.

        A block of zeros ends a tar. tarfile takes a header that it does not understand for the end too, and a lack of
        headers: whatever follows, or was to follow, would be lost in silence.
        """
        if self.last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("no end")
        while data := self.stream.read(1 << 16):
            _check_size(self.archive, self.stream.tell(), self.packed)
            if data.strip(b"\0"):
                raise _refuse(self.archive, "something follows its end")


@contextmanager
def _unpacked(path: Path) -> Iterator[_Bounded]:
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield _Bounded(raw, path)
            return
        with gzip.GzipFile(fileobj=raw) as stream:
            yield _Bounded(cast(IO[bytes], stream), path)


def _tar_members(path: Path, others: Others) -> Iterator[RecordFile]:
    try:
        with _unpacked(path) as stream, tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # or it keeps every header
                archive.pax_headers.clear()  # type: ignore[attr-defined]  # or it keeps those of all members
                _check_member(path, member.name, member.isreg() or member.isdir())
                if member.isreg() and is_record_name(member.name):
                    stream.allow(MAX_RECORD_BYTES)
                    yield _tar_record(archive, member)
                elif member.isreg():
                    others.see(member.name)
                stream.allow(MAX_HEADERS)
            stream.finish()
    except (tarfile.TarError, *_DAMAGE) as error:
        raise CohortError(f"{path}: cannot be read as a tar archive, it is damaged or cut short") from error


def _tar_record(archive: tarfile.TarFile, member: tarfile.TarInfo) -> RecordFile:
    name, problem = printable(member.name.rsplit("/", 1)[-1]), _too_large(member.size)
    if problem:
        return RecordFile(name, problem=problem, path=member.name)
    with cast(IO[bytes], archive.extractfile(member)) as stream:
        data = stream.read()
    if len(data) != member.size:
        raise EOFError
    return RecordFile(name, data, path=member.name)


def _zip_members(path: Path, others: Others) -> Iterator[RecordFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_count(archive, len(members))
            for member in members:
                kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the writer knew no such kinds
                _check_member(path, member.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            _check_size(path, sum(m.file_size for m in members), path.stat().st_size)
            for member in members:
                inside = member.filename.replace("\\", "/")  # some Windows tools write these
                if not member.is_dir() and is_record_name(inside):
                    yield _zip_record(archive, member, inside)
                else:
                    _check_name(archive, member)
                    if not member.is_dir():
                        others.see(inside)
    except (zipfile.BadZipFile, NotImplementedError, *_DAMAGE) as error:
        raise CohortError(f"{path}: cannot be read as a zip archive, it is damaged or cut short") from error


def _check_count(archive: zipfile.ZipFile, members: int) -> None:
    """zipfile takes what it can read of a directory for the whole; how many entries there are stands after it."""
    stream = cast(IO[bytes], archive.fp)
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - (1 << 16) - _ZIP_END))
    end = stream.read()
    place = end.rfind(b"PK\5\6") + 10
    said = int.from_bytes(end[place : place + 2], "little")
    if said not in (members & _MANY, _MANY):
        raise zipfile.BadZipFile("entries are missing")


def _check_name(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """A zip has every name twice, and no checksum of it: a record may have lost its ending to a flipped bit."""
    with suppress(RuntimeError), archive.open(member):  # encrypted, or packed in a way that is not known
        pass


def _zip_record(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> RecordFile:
    name, problem = printable(path.rsplit("/", 1)[-1]), _too_large(member.file_size)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = _UNKNOWN  # lzma would take gigabytes if the member asked for them
    if problem:
        return RecordFile(name, problem=problem, path=path)
    try:
        with archive.open(member) as stream:
            return RecordFile(name, stream.read(MAX_RECORD_BYTES + 1), path=path)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return RecordFile(name, problem="damaged in its archive", path=path)
    except RuntimeError:
        return RecordFile(name, problem=_UNKNOWN, path=path)
