"""Every row, in the order of the printed table; a module a kind of fault."""

from tests.faults import (
    archives,
    damage,
    disk,
    exhaustion,
    mapped,
    models,
    numbers,
    privacy,
    processes,
    reader,
    same_answer,
)

ROWS = (
    *processes.ROWS,
    *disk.ROWS,
    *damage.ROWS,
    *exhaustion.ROWS,
    *reader.ROWS,
    *mapped.ROWS,
    *archives.ROWS,
    *models.ROWS,
    *numbers.ROWS,
    *same_answer.ROWS,
    *privacy.ROWS,
)
