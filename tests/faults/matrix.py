"""Every row, in the order of the printed table; a module a kind of fault."""

from tests.faults import (
    archives,
    bounds,
    clocks,
    damage,
    disk,
    exhaustion,
    mapped,
    messages,
    mixtures,
    models,
    numbers,
    privacy,
    processes,
    reader,
    same_answer,
    uninformative,
)

ROWS = (
    *processes.ROWS,
    *disk.ROWS,
    *damage.ROWS,
    *exhaustion.ROWS,
    *reader.ROWS,
    *mapped.ROWS,
    *messages.ROWS,
    *bounds.ROWS,
    *clocks.ROWS,
    *archives.ROWS,
    *models.ROWS,
    *mixtures.ROWS,
    *numbers.ROWS,
    *uninformative.ROWS,
    *same_answer.ROWS,
    *privacy.ROWS,
)
