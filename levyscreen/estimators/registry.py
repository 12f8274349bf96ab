"""Every estimator by its name; to add one, write its file and a line here."""

from __future__ import annotations

from levyscreen.estimators.base import Estimator
from levyscreen.estimators.cheapest import ByLot, Interpolation, LastValue
from levyscreen.estimators.data_only import (
    AnyVariableGap,
    RecordLength,
    SameVariableCount,
    SameVariableGap,
    WindowedDensity,
)
from levyscreen.estimators.density import Density
from levyscreen.estimators.draws import LayerDraws, PredictionDraws
from levyscreen.estimators.dropout import MonteCarloDropout
from levyscreen.estimators.ensemble import DeepEnsemble
from levyscreen.estimators.laplace import Laplace
from levyscreen.estimators.likelihood import BetaNll, GaussianNll, TnpD
from levyscreen.estimators.rich import FeaturesAlone, MetaModel, Rich
from levyscreen.estimators.rich_rivals import CosineRich, NoSignal, SoftmaxRich
from levyscreen.estimators.signals import Deviation, Disagreement, InverseEvidence, SigmaHat
from levyscreen.estimators.softmax import (
    CosineDeviation,
    CosineDispersion,
    CosineEntropy,
    CosinePartition,
    Dispersion,
    Entropy,
    Partition,
)
from levyscreen.estimators.student import StudentDeviation, StudentRich
from levyscreen.estimators.variable_error import VariableError
from levyscreen.estimators.variance_head import VarianceHead

ESTIMATORS: dict[str, type[Estimator]] = {
    "interpolation": Interpolation,
    "last-value": LastValue,
    "by-lot": ByLot,
    "gap-same-variable": SameVariableGap,
    "gap-any-variable": AnyVariableGap,
    "count-same-variable": SameVariableCount,
    "density-window": WindowedDensity,
    "record-length": RecordLength,
    "softmax-partition": Partition,
    "softmax-entropy": Entropy,
    "softmax-dispersion": Dispersion,
    "cosine-partition": CosinePartition,
    "cosine-entropy": CosineEntropy,
    "cosine-dispersion": CosineDispersion,
    "cosine-deviation": CosineDeviation,
    "inverse-evidence": InverseEvidence,
    "sigma-hat": SigmaHat,
    "draws-layer": LayerDraws,
    "draws-prediction": PredictionDraws,
    "disagreement": Disagreement,
    "deviation": Deviation,
    "density": Density,
    "laplace": Laplace,
    "dropout": MonteCarloDropout,
    "ensemble": DeepEnsemble,
    "student": StudentDeviation,
    "variable-error": VariableError,
    "variance-head": VarianceHead,
    "rich": Rich,
    "meta-model": MetaModel,
    "features": FeaturesAlone,
    "student-rich": StudentRich,
    "no-signal-rich": NoSignal,
    "softmax-rich": SoftmaxRich,
    "cosine-rich": CosineRich,
    "nll": GaussianNll,
    "beta-nll": BetaNll,
    "tnp-d": TnpD,
}
