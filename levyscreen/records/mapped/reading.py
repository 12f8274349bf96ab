"""From somebody's own tables, by a mapping, to a cohort: each value a reading, a descriptor, or counted as what it is.

The rows are read once, in blocks, and gathered by record (buckets.py), for hour 0 of a record is known only when all
its rows are. Then each bucket becomes a Part, as a batch of record files does, and assemble.py makes the cohort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.assemble import assemble
from levyscreen.records.cohort import Cohort
from levyscreen.records.mapped.fit import Fit, Fits
from levyscreen.records.mapped.mapping import JOINED, STATIC, Columns, Mapping, Static
from levyscreen.records.mapped.stays import parts_of
from levyscreen.records.mapped.tables import TableFile, table_files
from levyscreen.records.mapped.taking import Gathered, Taking, plural

MAPPED_VERSION = 7  # changes with any change of what is made of the same tables by the same mapping


def read_mapped(mapping: Mapping, files: Sequence[TableFile] | None = None) -> Cohort:
    """The cohort that a mapping makes of its source; the order of rows and of files changes nothing.

    Raises CohortError where a file, a column or a unit is not as the mapping says, no row has a record, or a table of
    several has no record in common with the others.
    """
    gathered = Gathered()
    takings = [Taking(part, gathered, number) for number, part in enumerate(mapping.parts)]
    if mapping.kind == JOINED:
        _join(mapping, takings)
    else:
        _read(takings[0], table_files(mapping.source, mapping.kind) if files is None else files)
        takings += [_static(mapping, mapping.static, takings[0])] if mapping.static is not None else []
    if not gathered.register.labels:
        unread = "".join(f"; {note}" for note in gathered.unread.notes())
        raise CohortError(f"{mapping.source}: no row names a record in its column {mapping.columns.record!r}{unread}")
    scale = mapping.time.scale if mapping.kind == JOINED else takings[0].scale or mapping.time.scale
    names = _names(takings)
    fits = Fits([Fit(t.mapping, t.scale or t.mapping.time.scale) for t in takings], gathered.tables)
    cohort = assemble(
        parts_of(mapping, gathered.register, gathered.buckets, scale, fits), mapping.name, mapping.variables
    )
    said = [[*each, *taking.notes()] for each, taking in zip(fits.notes(), takings, strict=True)]
    if mapping.kind == JOINED:
        said = [[f"{name}: {note}" for note in notes] for name, notes in zip(names, said, strict=True)]
        said.append(list(_alone(takings, names)))
    return replace(
        cohort,
        rejects=pa.concat_tables([cohort.rejects, gathered.unread.examples()]),
        unread=gathered.unread.count,
        notes=(*(note for notes in said for note in notes), *gathered.unread.notes(), *_problems(cohort)),
    )


def _read(taking: Taking, files: Sequence[TableFile]) -> None:
    taking.alone = len(files) == 1
    for file in files:
        taking.add(file)
    taking.done()


def _static(mapping: Mapping, static: Static, readings: Taking) -> Taking:
    """The descriptors in another table of a mapping that has one table of readings."""
    columns = Columns(static.record, None, static.record, None, None)
    form = replace(mapping.form, header=None, skip=0, delimiter=static.delimiter)
    time = replace(mapping.time, column=None)
    plain = replace(mapping, source=static.source, kind=STATIC, columns=columns, time=time, form=form)
    taking = Taking(plain, readings.gathered, 1)
    for file in table_files(static.source, ""):
        taking.add_facts(file, mapping.form.delimiter if file.ending in readings.endings else None)
    return taking


# Several tables -----------------------------------------------------------------------------------------------------


def _join(mapping: Mapping, takings: Sequence[Taking]) -> None:
    """The rows of all tables by the records' ids; those of patients last, as descriptors alone make no record."""
    static = [taking for taking in takings if taking.mapping.kind == STATIC]
    for taking in takings:
        taking.common = mapping.time.scale
        if taking not in static:
            _read(taking, _named(taking))
    for taking in sorted(static, key=lambda each: not each.mapping.columns.record):  # who a record's subject is, first
        for file in _named(taking):
            taking.add_facts(file)
    readings = [taking for taking in takings if taking not in static]
    rows = _rows(readings)
    for place, taking in enumerate(readings):
        others = np.delete(rows, place, axis=0)
        if len(others) and rows[place].any() and not (others[:, rows[place] > 0] > 0).any():
            raise CohortError(
                f"{taking.mapping.source}: none of its ids in {taking.mapping.columns.record!r} is in another table of "
                f"{mapping.path.name}: name a column of the same ids as record, or make it a mapping of its own"
            )


def _named(taking: Taking) -> list[TableFile]:
    """The files of one of several tables, each named by its table too."""
    source = taking.mapping.source
    files = table_files(source, taking.mapping.kind)
    return files if source.is_file() else [replace(f, name=printable(f"{source.name}/{f.name}")) for f in files]


def _names(takings: Sequence[Taking]) -> list[str]:
    """What each table is called: by its source and, where several have it, its number in the mapping."""
    names = [printable(taking.mapping.source.name) for taking in takings]
    return [f"{n} (table {i})" if names.count(n) > 1 else n for i, n in enumerate(names, 1)]


def _rows(takings: Sequence[Taking]) -> NDArray[np.int64]:
    """Rows of each record in each table, (T, R)."""
    records = len(takings[0].register.labels)
    return np.stack([taking.presence.rows(records) for taking in takings])


def _alone(takings: Sequence[Taking], names: Sequence[str]) -> Iterator[str]:
    """What one table says of records that no other knows, and of which records a table of patients says nothing."""
    rows, files = _rows(takings), takings[0].register.files
    for place, (taking, name) in enumerate(zip(takings, names, strict=True)):
        if taking.mapping.kind == STATIC:
            if strangers := taking.rows_of_strangers:
                yield f"{strangers:,} row{plural(strangers)} of {name} of ids that no table of readings has, not read"
            if lacking := int((rows[place] == 0).sum()):
                yield f"{lacking:,} of {rows.shape[1]:,} records have no row in {name}"
            continue
        alone = np.flatnonzero((rows[place] > 0) & (np.delete(rows, place, axis=0) == 0).all(axis=0))
        if len(alone) and len(takings) > 1:
            file, row = taking.presence.first(alone)
            count = int(rows[place, alone].sum())
            yield (
                f"{count:,} row{plural(count)} of {name} of {len(alone):,} record{plural(len(alone))} that no other "
                f"table has, the first in {files[file]}, row {row}; read all the same"
            )


def _problems(cohort: Cohort) -> Iterator[str]:
    """How many records cannot be read, and why; not which, for a record's name is a patient's here."""
    found = Counter(problem for problem in cohort.records.column("problem").to_pylist() if problem)
    for problem, count in sorted(found.items()):
        yield f"{count:,} record{plural(count)} not readable: {problem}"
