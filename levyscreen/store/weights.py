"""Weights of a network as a safetensors file: loading runs no code from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch.overrides import TorchFunctionMode

from levyscreen import outputs
from levyscreen.config import ModelConfig
from levyscreen.errors import ModelError
from levyscreen.model.network import Network
from levyscreen.store.files import CONFIG, damaged, require_file


def load_weights(path: Path, settings: ModelConfig, device: torch.device | str = "cpu") -> Network:
    """A network from a safetensors file alone. Raises ModelError for a pickle, a cut file, NaN or other shapes."""
    try:
        tensors = load_file(require_file(path))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ModelError(f"{path} is not a whole safetensors file: {error}") from error
    with (
        torch.device("meta"),
        _Uninitialised(),
    ):  # shapes alone: a network of absurd size is found out before it takes memory
        described = {name: (t.shape, t.dtype) for name, t in Network(settings).state_dict().items()}
    held = {name: (t.shape, t.dtype) for name, t in tensors.items()}
    if other := sorted(dict(described.items() ^ held.items())):
        raise ModelError(f"{path} holds other weights than {CONFIG} describes: {', '.join(other[:3])}")
    bad = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise ModelError(f"{path} holds weights that are not finite, in {bad[0]}")
    network = Network(settings)
    network.load_state_dict(tensors)
    return network.to(device).eval()


class _Uninitialised(TorchFunctionMode):
    """Leaves weights as they are made: to draw them on "meta" would load torch's compiler, which takes seconds."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def save_weights(path: Path, network: Network) -> None:
    """Writes a network's weights alone, as for a member of an ensemble."""
    with outputs.replacing(path) as temporary:
        temporary.write_bytes(as_bytes(network))


def as_bytes(network: Network) -> bytes:
    """A network's weights as a safetensors file has them."""
    return bytes(serialised({k: t.detach().cpu().contiguous() for k, t in network.state_dict().items()}))


def checked(path: Path, weights: dict[str, str]) -> str:
    """Digest of a file of weights. Raises ModelError if the configuration was written with another one."""
    digest = outputs.digest(path)
    if weights.get(path.name, digest) != digest:
        raise damaged(path)
    return digest
