"""For which patients are a model's predictions unreliable, and why? Single-pass uncertainty for irregular records."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levyscreen.continuum import continuum
    from levyscreen.judging import calibrate, evaluate
    from levyscreen.operator.attention import LevyAttention
    from levyscreen.records.cache import read_cohort
    from levyscreen.screen import screen
    from levyscreen.store import load_model
    from levyscreen.training import train

__all__ = ["LevyAttention", "calibrate", "continuum", "evaluate", "load_model", "read_cohort", "screen", "train"]

_HOMES = {
    "LevyAttention": "operator.attention",
    "calibrate": "judging",
    "continuum": "continuum",
    "evaluate": "judging",
    "load_model": "store",
    "read_cohort": "records.cache",
    "screen": "screen",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    """Loads each name where it is first used, so that importing levyscreen loads no torch."""
    if name == "__version__":
        from importlib.metadata import version

        return version("levyscreen")
    if name not in _HOMES:
        raise AttributeError(f"module 'levyscreen' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"levyscreen.{_HOMES[name]}"), name)


class _Flat(ModuleType):
    """Keeps `levyscreen.screen` the function: importing a module would bind its name here and hide a function of it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Flat
