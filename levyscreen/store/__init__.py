"""Model folders: weights, configuration, preprocessor, calibration, card. Loading runs no code from them."""

from levyscreen.store.files import CALIBRATION, CARD, CARD_DATA, CONFIG, PREPROCESSOR, WEIGHTS
from levyscreen.store.manifest import MANIFEST, seal
from levyscreen.store.members import has_member, load_members, member_path, save_member
from levyscreen.store.model import Model, identities
from levyscreen.store.reading import find, load_model, shipped_folder
from levyscreen.store.weights import save_weights
from levyscreen.store.writing import copied, require_new, save_calibrations, save_model

__all__ = [
    "CALIBRATION",
    "CARD",
    "CARD_DATA",
    "CONFIG",
    "MANIFEST",
    "PREPROCESSOR",
    "WEIGHTS",
    "Model",
    "copied",
    "find",
    "has_member",
    "identities",
    "load_members",
    "load_model",
    "member_path",
    "require_new",
    "save_calibrations",
    "save_member",
    "save_model",
    "save_weights",
    "seal",
    "shipped_folder",
]
