from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from levyscreen.errors import CohortError
from levyscreen.records import archives
from levyscreen.records.archives import MAX_RECORD_BYTES, open_source, passed_over, read_source
from levyscreen.records.cache import read_cohort
from tests.records.record_files import HEAD, record, same, write_folder

FILES = {"7.txt": record(7, "00:07,HR,73"), "8.txt": record(8, "00:07,HR,x", "00:09,K,4.1"), "9.txt": "x"}


def make_tar(path: Path, members: Mapping[str, str | bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, text in members.items():
            data = text if isinstance(text, bytes) else text.encode()
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return path


def make_zip(path: Path, members: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


MAKERS: list[tuple[Callable[[Path, Mapping[str, str | bytes]], Path], str]] = [
    (make_tar, "x.tar.gz"),
    (make_zip, "x.zip"),
]


def names(path: Path) -> dict[str, str | None]:
    return {file.name: file.problem for file in read_source(open_source(path))}


# One cohort in every wrapping ---------------------------------------------------------------------------------------


def test_a_folder_and_its_archives_give_the_same_cohort(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", FILES)
    inside = {f"set/{name}": text for name, text in reversed(FILES.items())}
    plain = read_cohort(folder, cache=False)
    for path in (
        make_tar(tmp_path / "set.tar.gz", inside),
        make_tar(tmp_path / "set.tgz", inside),
        make_tar(tmp_path / "set.tar", inside, "w"),
        make_zip(tmp_path / "set.zip", {"./" + name: text for name, text in inside.items()}),
        make_zip(tmp_path / "set.ZIP", {name.replace("/", "\\"): text for name, text in inside.items()}),
    ):
        packed = read_cohort(path, cache=False)
        assert same(plain, packed)
        assert (packed.name, packed.fingerprint, packed.notes) == ("set", plain.fingerprint, plain.notes)


def test_the_fingerprint_changes_with_a_name_and_with_a_byte(tmp_path: Path) -> None:
    changed = [FILES, {**FILES, "7.txt": record(7, "00:07,HR,74")}, {"a.txt": FILES["7.txt"], **FILES}, {"7.txt": HEAD}]
    folders = [write_folder(tmp_path / str(i), files) for i, files in enumerate(changed)]
    assert len({read_cohort(folder, cache=False).fingerprint for folder in folders}) == len(changed)


def test_only_visible_text_files_are_records(tmp_path: Path) -> None:
    others = {"._7.txt": "x", ".7.txt": "x", "README.md": "x", "7.csv": "x"}
    assert list(names(write_folder(tmp_path / "set", {**FILES, **others}))) == list(FILES)
    inside = {f"set/{n}": t for n, t in {**FILES, **others}.items()} | {"__MACOSX/set/._8.txt": "x", ".git/9.txt": "x"}
    for make, name in MAKERS:
        assert list(names(make(tmp_path / name, inside))) == list(FILES)


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_what_an_archive_holds_besides_records_is_counted_and_named(tmp_path: Path, make: Any, name: str) -> None:
    inside = {f"set/{n}": t for n, t in FILES.items()}
    assert not [note for note in read_cohort(make(tmp_path / name, inside)).notes if "not read," in note]
    make(tmp_path / name, {**inside, "set/2.TXT": "x", "set/3.csv": "x", "set/.hidden": "x"})
    for _ in range(2):  # the second time from the cache
        *_, note = read_cohort(tmp_path / name).notes
        assert note == f"2 files in {name} not read, such as set/2.TXT: record files are named like 132539.txt"


def test_two_members_of_one_name_are_read_and_counted_once(tmp_path: Path) -> None:
    members = {"b/7.txt": record(7, "00:07,HR,99"), "a/7.txt": record(7, "00:07,HR,73")}
    cohort = read_cohort(make_tar(tmp_path / "x.tar", members, "w"), cache=False)
    assert cohort.value.tolist() == [73.0]
    assert cohort.records["problem"].null_count == 1


# Hostile archives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "name"), MAKERS)
@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("../7.txt", "leads out of it"),
        ("set/../../7.txt", "leads out of it"),
        ("set\\..\\7.txt", "leads out of it"),
        ("../../bin/tool", "leads out of it"),
        ("/etc/7.txt", "absolute path"),
        ("\\7.txt", "absolute path"),
        ("C:\\7.txt", "absolute path"),
    ],
)
def test_a_path_out_of_the_archive_is_refused(
    tmp_path: Path, make: Callable[..., Path], name: str, member: str, why: str
) -> None:
    with pytest.raises(CohortError, match=rf"refused, it holds .*{why}.*unpack it and give the folder"):
        read_cohort(make(tmp_path / name, {**FILES, member: "x"}), cache=False)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_link_or_device_in_a_tar_is_refused(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("8.txt")
    header.type, header.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(header)
    with pytest.raises(CohortError, match="refused, it holds a link or a device"):
        read_cohort(tmp_path / "x.tar", cache=False)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    header = zipfile.ZipInfo("8.txt")
    header.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(header, "/etc/passwd")
    with pytest.raises(CohortError, match="refused, it holds a link or a device"):
        read_cohort(tmp_path / "x.zip", cache=False)


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Path], name: str
) -> None:
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)
    path = make(tmp_path / name, {"7.txt": record(7), "8.txt": bytes(3 << 20)})
    with pytest.raises(CohortError, match="refused, it unpacks to more than 200 times its size"):
        read_cohort(path, cache=False)
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 2 << 20)
    with pytest.raises(CohortError, match="refused, it unpacks to more than"):
        read_cohort(path, cache=False)


def test_a_tar_header_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("name")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 3 << 30
    (tmp_path / "x.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with pytest.raises(CohortError, match="refused"):
        read_cohort(tmp_path / "x.tar", cache=False)


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_a_record_larger_than_any_can_be_is_named_and_the_others_are_read(
    tmp_path: Path, make: Callable[..., Path], name: str
) -> None:
    path = make(tmp_path / name, {"7.txt": record(7), "8.txt": os.urandom(MAX_RECORD_BYTES + 1)})
    assert names(path) == {"7.txt": None, "8.txt": "larger than 4 MiB, no record is"}


@pytest.mark.parametrize(("make", "name"), MAKERS)
@pytest.mark.parametrize("keep", [0, 10, 60, 100, -30])
def test_an_archive_that_is_cut_short_is_refused(
    tmp_path: Path, make: Callable[..., Path], name: str, keep: int
) -> None:
    path = make(tmp_path / name, FILES)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CohortError, match="archive, it is damaged or cut short"):
        read_cohort(path, cache=False)


def test_a_plain_tar_that_ends_at_a_block_without_an_end_is_refused(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", FILES, "w")
    path.write_bytes(path.read_bytes()[: 2 * 1024])
    with pytest.raises(CohortError, match="archive, it is damaged or cut short"):
        read_cohort(path, cache=False)


def test_what_follows_a_damaged_header_is_not_lost_in_silence(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", FILES, "w")
    path.write_bytes(path.read_bytes().replace(b"8.txt", b"8.tyt"))
    with pytest.raises(CohortError, match="archive, it is damaged or cut short"):
        read_cohort(path, cache=False)
    one, other = (make_tar(tmp_path / name, FILES, "w").read_bytes() for name in ("1.tar", "2.tar"))
    path.write_bytes(one + other)
    with pytest.raises(CohortError, match="refused, something follows its end"):
        read_cohort(path, cache=False)


def test_the_checksum_of_a_gzip_is_looked_at(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", FILES, "w")
    packed = bytearray(gzip.compress(path.read_bytes()))
    packed[-8] ^= 1
    (tmp_path / "x.tar.gz").write_bytes(packed)
    with pytest.raises(CohortError, match="archive, it is damaged or cut short"):
        read_cohort(tmp_path / "x.tar.gz", cache=False)


def test_a_zip_that_lost_the_ending_of_a_record_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", FILES)
    head, directory = path.read_bytes().split(b"PK\1\2", 1)
    path.write_bytes(head + b"PK\1\2" + directory.replace(b"8.txt", b"8.tyt"))
    with pytest.raises(CohortError, match="archive, it is damaged or cut short"):
        read_cohort(path, cache=False)


def test_a_zip_whose_directory_lost_an_entry_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", FILES)
    data = bytearray(path.read_bytes())
    data[data.rfind(b"PK\1\2", 0, data.rfind(b"PK\1\2")) + 33] ^= 1  # a comment that swallows the last entry
    path.write_bytes(data)
    with pytest.raises(CohortError, match="archive, it is damaged or cut short"):
        read_cohort(path, cache=False)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_member_packed_in_a_way_that_may_ask_for_gigabytes_is_named(tmp_path: Path, method: int) -> None:
    path = make_zip(tmp_path / "x.zip", FILES)
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("10.txt", "x")
    assert names(path)["10.txt"] == "encrypted or packed in a way that is not known"


def test_a_member_that_is_damaged_in_a_zip_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    path.write_bytes(path.read_bytes().replace(b"HR,73", b"HR,74"))
    assert names(path) == {"7.txt": "damaged in its archive", "8.txt": None, "9.txt": None}


def test_an_archive_without_a_record_says_so(tmp_path: Path) -> None:
    for make, name in MAKERS:
        with pytest.raises(CohortError, match=r"no record file in this archive; they are named like 132539\.txt"):
            read_cohort(make(tmp_path / name, {"README.md": "x"}), cache=False)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, FILES)
    with pytest.raises(
        CohortError, match="not a cohort; give a folder of record files such as the one that it is in, or"
    ):
        read_cohort(folder / "7.txt", cache=False)
    (folder / "notes.md").touch()
    with pytest.raises(
        CohortError, match=r"not a cohort; give a folder of record files, or a .* a mapping of your own"
    ):
        read_cohort(folder / "notes.md", cache=False)


def test_a_folder_without_a_record_names_the_first_in_it_that_has_some(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / ".hidden.txt").touch()
    with pytest.raises(CohortError, match=r"they are named like 132539\.txt$"):
        read_cohort(tmp_path, cache=False)
    write_folder(tmp_path / "c", FILES)
    with pytest.raises(CohortError, match=r"132539\.txt; did you mean c in it\?$"):
        read_cohort(tmp_path, cache=False)


# Hostile folders ----------------------------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_named_and_never_opened(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", {"7.txt": record(7)})
    os.mkfifo(folder / "1.txt")  # opening it would wait for ever
    (folder / "2.txt").symlink_to("2.txt")
    (folder / "3.txt").symlink_to("nowhere")
    (folder / "4.txt").mkdir()
    (folder / "5.txt").symlink_to("7.txt")
    with open(folder / "6.txt", "wb") as big:
        big.truncate(MAX_RECORD_BYTES + 1)
    found = names(folder)
    assert [found[f"{i}.txt"] for i in (1, 4, 5, 6)] == [
        "not a regular file",
        "not a regular file",
        None,
        "larger than 4 MiB, no record is",
    ]
    assert all(str(found[name]).startswith("cannot be read: ") for name in ("2.txt", "3.txt"))
    assert read_cohort(folder).records["problem"].null_count == 1  # 5.txt is 7.txt again


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", FILES)
    (folder / "8.txt").chmod(0)
    assert names(folder)["8.txt"] == "cannot be read: Permission denied"


def test_a_file_that_grew_since_it_was_listed_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", FILES)
    source = open_source(folder)
    (folder / "8.txt").write_text(record(8, *["00:07,HR,73"] * 50))
    assert {f.name: f.problem for f in read_source(source)}["8.txt"] == "changed while it was read"


def test_a_file_name_that_is_not_unicode_is_escaped(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", {"7.txt": record(7)})
    with open(os.fsencode(folder) + b"/\xff.txt", "w") as stream:
        stream.write(record(8))
    assert read_cohort(folder).records["file"].to_pylist() == ["7.txt", "\\xff.txt"]


def test_a_loop_of_links_in_place_of_a_cohort_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "set").symlink_to("set")
    with pytest.raises(CohortError, match="cannot be opened"):
        read_cohort(tmp_path / "set")


def test_what_a_folder_holds_besides_records_is_counted_and_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", FILES)
    assert passed_over(folder) is None
    (folder / "7.txt.gz").write_bytes(b"")
    (folder / ".hidden").write_bytes(b"")
    assert str(passed_over(folder)).startswith("1 file in set not read, such as 7.txt.gz: record files are named like")
    (folder / "8.csv").write_bytes(b"")
    (folder / "sub").mkdir()
    assert str(passed_over(folder)).startswith("2 files and 1 folder in set not read, such as 7.txt.gz: ")
    assert passed_over(tmp_path / "set.tar.gz") is None
