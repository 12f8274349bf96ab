"""docs/api.md, from signatures and docstrings: `python -m docs.api` writes it anew."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import levyscreen

PAGE = Path(__file__).with_name("api.md")
# What the public functions take and give, where it lives.
BESIDE = {
    "levyscreen.screen": ("ScreenSettings", "Screening"),
    "levyscreen.continuum": ("ContinuumSettings", "Written"),
    "levyscreen.judging": ("Evaluation",),
    "levyscreen.store": ("Model",),
    "levyscreen.config": ("Protocol", "ModelConfig", "TrainingConfig"),
    "levyscreen.records.cohort": ("Cohort",),
    "levyscreen.card": ("write_card",),
    "levyscreen.operator": ("LevySignals",),
}
HEAD = """# Python

Signatures and texts below are those of the code; `python -m docs.api` writes them. `import levyscreen` loads no torch:
each name is loaded as it is first used.

## Screening from Python

```python
import levyscreen

cohort = levyscreen.read_cohort("examples/set-b-sample")
model = levyscreen.load_model()
screening = levyscreen.screen(cohort, model)
scores = screening.scores
print(scores["status"].value_counts())
print(scores.attrs["model"], scores.attrs["model_digest"])
```

Settings are frozen dataclasses; what you leave out is the command's default:

```python
from levyscreen.screen import ScreenSettings

other = levyscreen.screen(cohort, model, ScreenSettings(hide=0.5, flag=0.05))
print(int(other.scores["flagged"].sum()))
```

## Training from Python

As `levyscreen train my-records --out my-model`, but for one epoch of a smaller network:

```python
from levyscreen.config import ModelConfig, TrainingConfig

small = ModelConfig(len(cohort.variables), width=32, heads=2, blocks=1, feed_forward=64)
trained = levyscreen.train(cohort, "my-model", model=small, config=TrainingConfig(epochs=1))
print(levyscreen.evaluate(trained, cohort).summary)
```

A training that was cut off goes on with `resume=True`.

## The attention layer in a network of your own

`LevyAttention` takes the place of a `torch.nn.MultiheadAttention` in which queries look at timed keys:

```python
import torch
from levyscreen import LevyAttention

attend = LevyAttention(embed_dim=64, num_heads=4)
query, tokens = torch.randn(2, 5, 64), torch.randn(2, 9, 64)  # 2 records: 5 questions, 9 encoded readings
time = torch.rand(2, 9)  # of the readings, the horizon being 1
padding = torch.arange(9) >= torch.tensor([[9], [6]])  # True: no reading there
output, signals = attend(query, tokens, tokens, time, padding)
print(output.shape, signals.evidence.shape, signals.sigma_hat.shape)
```

`output` goes where the other layer's output went. In training leave the signals out (`need_signals=False`), which is
faster. [examples/levy_attention.py](../examples/levy_attention.py) trains a small network around it for a few seconds,
on waves read at irregular times, and prints what the layer says far from any reading:

```sh
python examples/levy_attention.py
```

The evidence falls with the distance to the nearest reading, and the deviation rises with it. What the signals are is in
[the method](method.md). They are of the layer, not yet of your network's output; to make an interval of one, calibrate
it on held-out data, as `levyscreen.calibrate` does for the models here.
"""


def section(name: str, thing: Any) -> str:
    """Heading, signature, docstring; of a class also what may be called on it."""
    title = f"### {name}\n\n```text\n{_signature(name, thing)}\n```\n\n{_text(thing)}\n"
    if not inspect.isclass(thing):
        return title
    own = {n: m for n, m in vars(thing).items() if not n.startswith("_") and (inspect.isfunction(m) or _is_property(m))}
    parts = [title, *(_member(n, m) for n, m in own.items() if (m.fget if _is_property(m) else m).__doc__)]
    return "\n".join(parts)


def _member(name: str, member: Any) -> str:
    shown = name if _is_property(member) else _signature(name, member)
    return f"#### {name}\n\n```text\n{shown}\n```\n\n{_text(member)}\n"


def _is_property(member: Any) -> bool:
    return isinstance(member, property)


def _signature(name: str, thing: Any) -> str:
    """One parameter a line where they are many."""
    signature = inspect.signature(thing)
    parameters = [_parameter(p) for p in signature.parameters.values() if p.name != "self"]
    first_by_name = [p.kind is p.KEYWORD_ONLY for p in signature.parameters.values() if p.name != "self"]
    if True in first_by_name:
        parameters.insert(first_by_name.index(True), "*")
    nothing = signature.return_annotation in ("None", None, signature.empty)
    returned = "" if nothing else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(parameters)}){returned}"
    return line if len(line) <= 110 else "\n".join([f"{name}(", *(f"    {p}," for p in parameters), f"){returned}"])


def _parameter(p: inspect.Parameter) -> str:
    if p.default is p.empty:
        return f"{p.name}: {p.annotation}"
    shown = repr(p.default)
    # What has no short name of its own: functions, factories, whole tables of variables.
    return f"{p.name}: {p.annotation} = {shown if len(shown) <= 40 and not shown.startswith('<') else '...'}"


def _text(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        "## Public names\n",
        *(section(f"levyscreen.{n}", getattr(levyscreen, n)) for n in levyscreen.__all__),
    ]
    parts.append("## What they take and give\n")
    for home, names in BESIDE.items():
        module = importlib.import_module(home)
        parts += [section(f"{home}.{name}", getattr(module, name)) for name in names]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
