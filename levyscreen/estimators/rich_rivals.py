"""The reader of `rich` given to others, to tell what of its ranking is the reader's and what the signals'.

It knows the variable and the prediction whatever else it reads. So there is one without any signal, and there are those
of the two controls, which read their dispersion, entropy and partition function.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from levyscreen.estimators.rich import Rich
from levyscreen.estimators.softmax import attended, dispersion, entropy, log_partition
from levyscreen.questions import Answers
from levyscreen.types import Batch


class NoSignal(Rich):
    """Of the point model, with every signal one and the same."""

    title = "variable and prediction alone, read (added here)"

    def answers(self, batch: Batch) -> Answers:
        """The point model's, without what it emits of its doubt."""
        found = super().answers(batch)
        same = np.ones_like(found.prediction)
        return replace(found, deviation=same, disagreement=same, evidence=same)


class SoftmaxRich(Rich):
    """Of the softmax control."""

    title = "all signals of the softmax control read together (added here)"
    reads = "softmax"

    def answers(self, batch: Batch) -> Answers:
        """The control's, with its three signals in the places that the reader takes the logarithm of.

        The partition function to an eighth, since float32 would not hold it; its logarithm is standardised anyway.
        """
        prediction, attention = attended(self.network, batch, self.title)
        spread, mass = dispersion(attention), (log_partition(attention) / 8).exp()
        mask = batch.query_mask
        fields = {
            "record": batch.record[:, None].expand_as(mask),
            "time": batch.query_time,
            "variable": batch.query_variable,
            "truth": batch.target,
            "prediction": prediction,
            "evidence": mass,
            "disagreement": entropy(attention),
            "sigma_hat": spread,
            "deviation": spread,
        }
        return Answers(**{name: field[mask].cpu().numpy() for name, field in fields.items()})


class CosineRich(SoftmaxRich):
    """Of the control with bounded logits."""

    title = "all signals of the cosine control read together (added here)"
    reads = "cosine"
