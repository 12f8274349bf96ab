"""Frozen settings, with the reasons for odd defaults; JSON round trip by `to_json` and `from_json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

MOST_READINGS = 8_192  # of a record that a model sees; cost grows with their square, so that of more is not borne
MOST = 1e15  # of any number in a file of ours: beyond every unit, and its square is still a float32


@dataclass(frozen=True)
class _Settings:
    def to_json(self) -> dict[str, Any]:
        """Plain objects that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The settings that `to_json` wrote. Raises ValueError for any other key, type or size."""
        settings: Self = parsed(cls, data, "settings")
        return settings

    def _within(self, limits: dict[str, tuple[float, float]]) -> None:
        """Raises ValueError unless each named field lies within its limits, ends included."""
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie between {least:g} and {most:g}, got {getattr(self, name)!r:.40}")


@dataclass(frozen=True)
class ModelConfig(_Settings):
    """The network of the paper's sec:setup and app:details.

    `decode` is the layer that answers: levy, its controls, or a Transformer Neural Process; `head` what it predicts: a
    value, or one with a scale learnt by likelihood. `width`, `heads`, `blocks` and `feed_forward` are of the encoder,
    `frequencies` those of its encoding of time; `time_cells`, `channel_cells` and `tau` are the grid and the rate of
    the layer. Raises ValueError for sizes that no network can have.

    With one channel cell the index space is time alone (tab:abl): no reading has a channel position then.
    """

    variables: int
    decode: Literal["levy", "softmax", "cosine", "tnp-d"] = "levy"
    head: Literal["point", "nll", "beta-nll"] = "point"
    width: int = 128
    heads: int = 4
    blocks: int = 3
    feed_forward: int = 512
    dropout: float = 0.1
    frequencies: int = 16
    # Cycles a stay, log-spaced: from half a stay to half an hour.
    lowest_frequency: float = 0.5
    highest_frequency: float = 96.0
    time_cells: int = 16
    channel_cells: int = 8
    tau: float = 0.5
    # What came after the paper; these defaults are its network, `OUR_NETWORK` is ours. `sharpness` is learned by head;
    # `neighbours` of a query, from its own variable or from all, are inputs of the head;
    # `values` are embedded along one direction, or along one for each variable.
    sharpness: Literal["fixed", "head"] = "fixed"
    neighbours: Literal["none", "own", "all"] = "none"
    values: Literal["shared", "variable"] = "shared"

    def to_json(self) -> dict[str, Any]:
        """Without what came after the paper where it is as in the paper: older models stay the same."""
        usual = {"sharpness": "fixed", "neighbours": "none", "values": "shared"}
        return {k: v for k, v in super().to_json().items() if usual.get(k) != v}

    def __post_init__(self) -> None:
        self._within(NETWORK_LIMITS)
        if self.width % self.heads or self.lowest_frequency > self.highest_frequency:
            raise ValueError(
                f"width {self.width} must be a multiple of heads {self.heads}, and lowest_frequency "
                f"{self.lowest_frequency:g} at most highest_frequency {self.highest_frequency:g}"
            )


# Far beyond what is of use, and small enough to be refused, or found to be other than the weights, without much memory.
NETWORK_LIMITS = {
    "variables": (1, 10_000),
    "width": (1, 8_192),
    "heads": (1, 256),
    "blocks": (1, 256),
    "feed_forward": (1, 65_536),
    "dropout": (0, 0.99),
    "frequencies": (1, 4_096),
    "lowest_frequency": (1e-6, 1e6),
    "highest_frequency": (1e-6, 1e6),
    "time_cells": (1, 256),
    "channel_cells": (1, 16),  # with many more, weights of far cells leave float32: exp(-cells^2 / 2)
    "tau": (1e-6, 1e6),
}


# The default recipe, beside the paper's, which the bare settings are (`levyscreen train --recipe`).
OUR_NETWORK: dict[str, Any] = {"channel_cells": 16, "sharpness": "head", "neighbours": "all", "values": "variable"}
OUR_TRAINING: dict[str, Any] = {"loss": "huber"}

# What is known of a query's surroundings besides the pass's signals: columns that a meta-model reads, in this order
# (`model/neighbours.py`). Of the query's own variable but for the last three; then what a network with neighbours says
# of the candidates of its gate (`model/heads.py`).
NEARBY = (
    "last_gap",  # ln of the distance to the last reading, share of the stay; of a whole stay where there is none
    "next_gap",
    "last",  # 1 where there is one
    "next",
    "jump",  # |next - last|, z units, as all distances here
    "step_before",  # |last - second last|
    "step_after",  # |second next - next|
    "count",  # ln(1 + readings)
    "spread",  # standard deviation of the readings
    "at_once",  # ln(1 + readings of any variable within 6 minutes of 48 hours)
    "near",  # ln(1 + readings of any variable within an hour of 48)
    "readings",  # ln(1 + all readings)
)
CANDIDATES = "own", "last", "next", "interpolated", "mean", "regression"
MIXED = *(f"from_{name}" for name in CANDIDATES), *(f"weight_of_{name}" for name in CANDIDATES), "mixture_spread"
SURROUNDINGS = (*NEARBY, *MIXED)

WIDTH_LEVEL = 0.9  # `calibrate` always fits it: of interval_width, of a report and its courses
HUBER_WIDTH = 0.1  # z units: squared below, absolute above
SEEDS = 2**32  # a training's seed is below; others are made of it


@dataclass(frozen=True)
class TrainingConfig(_Settings):
    """A training on hidden targets, resampled each epoch.

    `seed` draws the split, the hidden targets and the first weights; `peak_rate` is AdamW's, reached after the share
    `warm_up` of all steps. A batch is of `batch_records` records.
    """

    seed: int = 0
    epochs: int = 30
    batch_records: int = 32
    peak_rate: float = 1e-3
    warm_up: float = 0.15  # of all steps; one-cycle
    weight_decay: float = 0.01
    clip: float = 1.0  # gradient norm
    patience: int = 10  # epochs without a better validation loss
    beta: float = 0.5  # of beta-NLL (Seitzer and others, 2022)
    # What a levy layer puts out in training: its mean, or a Poisson draw with the mean's gradient (sec:exp_abl).
    path: Literal["mean", "sampled"] = "mean"
    teacher: str | None = None  # digest of the ensemble whose mean is learnt instead of the hidden values
    # Of products in training steps, and of what is made of them within a layer; weights, their gradients and validation
    # are float32. Much faster for wide networks on processors with bfloat16 units, of little use at width 128.
    products: Literal["float32", "bfloat16"] = "float32"
    loss: Literal["squared", "huber"] = "squared"  # of a point head; Huber's is linear beyond HUBER_WIDTH
    # Each epoch holds out a share of each record drawn between this and as much above the protocol's; None: that share.
    least_hidden: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Without what came later where it is the usual: states and models of before stay the same."""
        usual = {"path": "mean", "teacher": None, "products": "float32"}
        usual |= {"loss": "squared", "least_hidden": None}
        return {k: v for k, v in super().to_json().items() if k not in usual or v != usual[k]}


@dataclass(frozen=True)
class Protocol(_Settings):
    """Which readings a model is trained and judged on.

    `ours`: the plausibility table, every reading of every record. `paper`: negatives out and nothing else, records
    over 512 readings subsampled to 512 in training, at most 128 targets (the loader's envelope in app:details);
    screened records have 20 to 512 readings.
    """

    name: Literal["ours", "paper"] = "ours"
    hide: float = 0.3
    min_readings: int = 20  # below, no uncertainty is claimed
    max_readings: int | None = None
    max_targets: int | None = None

    def __post_init__(self) -> None:
        self._within({"hide": (0.001, 0.999), "min_readings": (1, MOST)})
        self._within({name: (1, MOST) for name in ("max_readings", "max_targets") if getattr(self, name) is not None})


OURS = Protocol()
PAPER = Protocol(name="paper", max_readings=512, max_targets=128)
PROTOCOLS = {"ours": OURS, "paper": PAPER}


def parsed(kind: Any, plain: Any, where: str) -> Any:
    """Plain JSON as what the annotation `kind` says, a dataclass or a type of its fields; numbers stay as written.

    Raises ValueError, saying what was required at which place and what came.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:  # of a type and None
        return None if plain is None else parsed(inner[0], plain, where)
    if is_dataclass(kind) and isinstance(plain, dict):
        return _fields_parsed(kind, plain, where)
    if origin in (tuple, list) and isinstance(plain, list):
        return origin(parsed(inner[0], item, f"{where}[{i}]") for i, item in enumerate(plain))
    if origin is dict and isinstance(plain, dict):
        return {key: parsed(inner[1], item, f"{where}.{key}") for key, item in plain.items()}
    if not _is(kind, plain):
        raise ValueError(f"{where} must be {_said(kind)}, got {plain!r:.40}")
    return plain


def _fields_parsed(kind: Any, plain: dict[str, Any], where: str) -> Any:
    types = get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    if unknown := sorted(plain.keys() - known):
        raise ValueError(f"{where} has {unknown[0]!r:.40}, which this version does not know")
    try:
        return kind(**{key: parsed(types[key], item, f"{where}.{key}") for key, item in plain.items()})
    except TypeError as error:  # a field without default is not there
        raise ValueError(f"{where} is not whole: {error}") from error


def _is(kind: Any, plain: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(plain, str) and plain in get_args(kind)
    if kind in (int, float):  # True is an int to Python; NaN is below nothing
        most = MOST if kind is float else 2**63 - 1
        return isinstance(plain, (int, kind)) and not isinstance(plain, bool) and abs(plain) <= most
    return kind is Any or isinstance(plain, kind if isinstance(kind, type) else ())


def _said(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    names = {int: "a whole number of 64 bits", float: f"a number within {MOST:g}", str: "text", bool: "true or false"}
    return names.get(kind, "an object" if is_dataclass(kind) or get_origin(kind) is dict else "a list")
