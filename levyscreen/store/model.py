"""A model folder as it is in memory, and whom its records are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from levyscreen import outputs
from levyscreen.calibrate import Calibration
from levyscreen.errors import CalibrationError, ModelError
from levyscreen.model.network import Network
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.store.files import CONFIG, FORMAT

if TYPE_CHECKING:
    import pyarrow as pa

    from levyscreen.records.cohort import Cohort


@dataclass(frozen=True)
class Model:
    """A loaded model folder."""

    name: str
    folder: Path
    digest: str  # of the weights
    network: Network
    preprocessor: Preprocessor
    calibrations: dict[str, Calibration]  # by signal, the default one first; empty where the model is not calibrated
    # Settings, cohort, split (record ids of train, validation, test), subjects and unnamed (as `identities`), history.
    training: dict[str, Any]
    # The `identities` of the records that the calibrations are of; empty where the folder does not say.
    fitted_on: dict[str, list[int]] = field(default_factory=dict)
    shipped: bool = False  # called by the name of a model that comes with the package: its folder stays as it is

    def records(self, part: str) -> NDArray[np.int64]:
        """Record ids that stood in `train`, `validation` or `test` when this model was trained."""
        return np.asarray(self.remembered("split", part), dtype=np.int64)

    def knows(self, cohort: Cohort, parts: Sequence[str]) -> NDArray[np.bool_]:
        """Which records of a cohort are of patients of these parts of the training, (R,).

        By subject where both say it; else by record id, by which a stranger may be taken for one, and left out.
        """
        of_parts = {"records": "split", "subjects": "subjects", "unnamed": "unnamed"}
        told = {name: key for name, key in of_parts.items() if key == "split" or key in self.training}
        return _among(
            cohort, {name: [x for part in parts for x in self.remembered(key, part)] for name, key in told.items()}
        )

    def calibrated_with(self, cohort: Cohort) -> NDArray[np.bool_]:
        """Which records of a cohort are of patients that set this model's intervals, (R,), known as by `knows`."""
        return _among(cohort, self.fitted_on)

    def remembered(self, *keys: str) -> Any:
        """What the folder remembers of its training. Raises ModelError where it does not say."""
        found: Any = self.training
        for key in keys:
            if key not in found:
                raise ModelError(
                    f"{self.folder / CONFIG} does not say {'.'.join(keys)} of its training: train the model again"
                )
            found = found[key]
        return found

    def met(self, fingerprint: str) -> str | None:
        """`trained` or `calibrated` where that was done on records of the cohort of this fingerprint, else None."""
        if fingerprint == self.training.get("cohort_fingerprint"):
            return "trained"
        of_calibrations = {c.provenance.get("cohort_fingerprint") for c in self.calibrations.values()}
        return "calibrated" if fingerprint in of_calibrations else None

    @property
    def device(self) -> torch.device:
        """Where its network lies, and all that is asked of it is computed."""
        return next(self.network.parameters()).device

    @property
    def calibration(self) -> Calibration | None:
        """The default calibration."""
        return next(iter(self.calibrations.values()), None)

    def require_calibration(self) -> Calibration:
        """The default one. Raises CalibrationError where there is none, ModelError where there can be none."""
        self.network.levy()
        if self.calibration is None:
            raise CalibrationError(
                f"model {self.name} is not calibrated: run levyscreen calibrate {self.folder} COHORT"
            )
        return self.calibration

    def timeline_calibration(self, with_deviation: bool) -> Calibration:
        """The one for a dense timeline: unless the deviation is paid for anyway, on a signal of the mean path.

        A meta-model's, or else sigma_hat's, where there is one: the disagreement does not see that evidence is missing.
        """
        default = self.require_calibration()
        if with_deviation and default.needs_deviation:
            return default
        cheap = [c for c in self.calibrations.values() if not c.needs_deviation]
        return min(cheap, key=lambda c: (c.reader is None, c.signal != "sigma_hat"), default=default)

    def provenance(self) -> dict[str, Any]:
        """What an output says of the model."""
        calibration = self.calibration
        return {
            "levyscreen": version("levyscreen"),
            "model": self.name,
            "model_digest": self.digest,
            "protocol": self.preprocessor.protocol.name,
            "calibration": None
            if calibration is None
            else {"signal": calibration.signal, "by": calibration.by} | calibration.provenance,
            "calibration_digest": outputs.sealed(as_json(self.calibrations.values()))[outputs.SEAL],
        }


def identities(described: pa.Table) -> dict[str, list[int]]:
    """Whom some records (schema.RECORDS) are of: `records` and, where there are any, `subjects`, each once.

    `unnamed` are those of the records that have no subject.
    """
    unnamed = described.filter(pc.is_null(described.column("subject_id")))
    columns = {
        "records": described.column("record_id"),
        "subjects": described.column("subject_id"),
        "unnamed": unnamed.column("record_id"),
    }
    found = {name: column.drop_null().unique().sort().to_pylist() for name, column in columns.items()}
    return {name: ids for name, ids in found.items() if ids}


def _among(cohort: Cohort, known: Mapping[str, list[int]]) -> NDArray[np.bool_]:
    """Which records of a cohort are of these `identities`, by subject where both have one, (R,)."""
    subject, ids = (cohort.records.column(name) for name in ("subject_id", "record_id"))
    record = ids.fill_null(-1).to_numpy()
    by_id = np.isin(record, known.get("records", []))
    if "subjects" not in known or subject.null_count == len(cohort):
        return by_id
    by_subject = np.isin(subject.fill_null(0).to_numpy(), known["subjects"])
    return np.where(subject.is_valid().to_numpy(), by_subject | np.isin(record, known.get("unnamed", [])), by_id)


def as_json(calibrations: Iterable[Calibration]) -> dict[str, Any]:
    """Calibrations as they stand in a model's folder."""
    return {"format": FORMAT, "calibrations": [c.to_json() for c in calibrations]}
