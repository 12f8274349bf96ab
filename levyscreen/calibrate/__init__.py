"""From a signal to a calibrated scale and interval, and the scores that judge both. Needs no torch."""

from levyscreen.calibrate.affine import Affine, fit_by_variable, fit_global
from levyscreen.calibrate.calibration import (
    META,
    META_MODELS,
    META_WITHOUT_DEVIATION,
    Calibration,
    check_request,
    fit_calibration,
)
from levyscreen.calibrate.conformal import CalibrationWarning, conformal_quantile
from levyscreen.calibrate.empirical import EmpiricalLaw, law_of_variable
from levyscreen.calibrate.reader import Emitted, Reader
from levyscreen.calibrate.reliability import reliability
from levyscreen.calibrate.scores import (
    ause,
    clustered_error,
    clustered_margin,
    coverage,
    crps_gaussian,
    crps_sample,
    flagged,
    flagged_excess,
    sparsification,
    spearman,
)

__all__ = [
    "META",
    "META_MODELS",
    "META_WITHOUT_DEVIATION",
    "Affine",
    "Calibration",
    "CalibrationWarning",
    "Emitted",
    "EmpiricalLaw",
    "Reader",
    "ause",
    "check_request",
    "clustered_error",
    "clustered_margin",
    "conformal_quantile",
    "coverage",
    "crps_gaussian",
    "crps_sample",
    "fit_by_variable",
    "fit_calibration",
    "fit_global",
    "flagged",
    "flagged_excess",
    "law_of_variable",
    "reliability",
    "sparsification",
    "spearman",
]
