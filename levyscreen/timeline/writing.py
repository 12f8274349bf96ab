"""Timelines to Parquet files, in the background, while the next ones are computed."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from levyscreen import outputs, schema
from levyscreen.temporaries import file_mode, private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from levyscreen.timeline.asking import Asker, Timeline

RECORDS_A_FILE = 1_024


class Writer:
    """Encodes and writes one window in the background while the next is computed; at most one waits."""

    def __init__(self, folder: Path, asker: Asker, provenance: dict[str, Any]):
        self.folder, self.provenance, self.seconds = folder, provenance, 0.0
        self.half = asker.settings.half
        self.dictionary = pa.array(asker.model.preprocessor.variables.names)
        self.schema = _schema(asker.names, self.half).with_metadata(outputs.footer(provenance))
        self.waiting: queue.Queue[Timeline | None] = queue.Queue(maxsize=1)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="continuum-writer")

    def __enter__(self) -> None:
        private_folder(self.folder)
        self.thread.start()

    def __exit__(self, kind: object, *_: object) -> None:
        self.waiting.put(None)
        self.thread.join()
        if self.failure is not None and kind is None:
            raise self.failure

    def put(self, timeline: Timeline) -> None:
        """Hands a window over; raises what the writing of an earlier one raised."""
        if self.failure is not None:
            raise self.failure
        self.waiting.put(timeline)

    def _run(self) -> None:
        windows = iter(self.waiting.get, None)
        try:
            while self._write_file(windows):
                pass
        except BaseException as error:  # handed to the computing thread, which raises it
            self.failure = error
            for _ in windows:
                pass

    def _write_file(self, windows: Iterator[Timeline]) -> bool:
        """One part of RECORDS_A_FILE records; False when there was nothing left to write."""
        import pyarrow.parquet as pq

        first = next(windows, None)
        if first is None:
            return False
        path = self.folder / f"part-{len(list(self.folder.glob('part-*'))):05d}.parquet"
        floats = [f.name for f in self.schema if pa.types.is_floating(f.type) and f.name != "time_hours"]
        options: dict[str, Any] = {
            "compression": "zstd",
            "compression_level": 1,
            "use_dictionary": ["variable", "time_hours", "record_id"],
            "use_byte_stream_split": floats,
            "write_statistics": ["record_id"],
            "write_page_checksum": True,
        }
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file_mode()))
        with pq.ParquetWriter(path, self.schema, **options) as writer:
            window: Timeline | None = first
            written = 0
            while window is not None:
                start = time.perf_counter()
                writer.write_table(self._table(window), row_group_size=2**31 - 1)
                self.seconds += time.perf_counter() - start
                written += len(window.record_id)
                window = next(windows, None) if written < RECORDS_A_FILE else None
        return True

    def _table(self, timeline: Timeline) -> pa.Table:
        records, variables, times = (len(x) for x in (timeline.record_id, timeline.variable, timeline.time_hours))
        code = np.tile(np.repeat(timeline.variable.astype(np.int16), times), records)
        arrays = [
            pa.array(np.repeat(timeline.record_id, variables * times)),
            pa.DictionaryArray.from_arrays(pa.array(code), self.dictionary),
            pa.array(np.tile(timeline.time_hours, records * variables)),
        ]
        unknown = _unanswered(timeline.columns)
        for values in timeline.columns.values():
            flat = (_halved(values) if self.half else values).reshape(-1)
            arrays.append(pa.array(flat, mask=None if unknown is None else unknown.reshape(-1)))
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _unanswered(columns: dict[str, NDArray[np.float32]]) -> NDArray[np.bool_] | None:
    """Where an answer is not finite, to be null in every column; None where all are. Intervals may be infinite."""
    finite = [np.isfinite(values) for name, values in columns.items() if name not in ("lower", "upper")]
    return None if all(f.all() for f in finite) else ~np.logical_and.reduce(finite)


def _halved(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """As float16; what is too large for it, such as the evidence of a very long record, becomes its largest number."""
    most = np.finfo(np.float16).max
    return np.where(np.isfinite(values), values.clip(-most, most), values).astype(np.float16)


def _schema(names: list[str], half: bool) -> pa.Schema:
    fixed = [schema.CONTINUUM.field(i) for i in range(3)]
    return pa.schema(fixed + [pa.field(name, pa.float16() if half else pa.float32()) for name in names])
