"""What a column beside that of the codes says of each code, as DESCRIPTION beside CODE."""

from __future__ import annotations

import numpy as np
import pyarrow.types as pt

from levyscreen.records.drafted.aliases import short
from levyscreen.records.drafted.profile import Profile
from levyscreen.records.drafted.roles import Roles, names_of
from levyscreen.records.mapped.cells import Words, words

_NAMES = names_of(
    """description code.text code_text code.coding.0.display display label item itemname item_name concept_name
    measurement_source_value observation_source_value long_common_name test_name parameter_name variable_name
    component_name nursingchartcelltypevallabel name bezeichnung"""
)
_ONE = 0.95  # of a code's rows, at least, that have its commonest description


def described_beside(profile: Profile, roles: Roles) -> dict[str, str]:
    """The description of each code of a long table; of a code that has several, none."""
    if roles.kind != "long" or roles.variable is None:
        return {}
    by_short = {short(name): name for name in profile.columns if name not in (roles.variable, roles.value)}
    code = words(profile.columns[roles.variable])
    for name in (by_short[known] for known in _NAMES if known in by_short):
        column = profile.columns[name]
        if pt.is_string(column.type) or pt.is_large_string(column.type) or pt.is_dictionary(column.type):
            found = _each(code, words(column))
            if len(set(found.values())) > 1:
                return found
    return {}


def _each(code: Words, said: Words) -> dict[str, str]:
    pairs, count = np.unique(code.which * len(said.words) + said.which, return_counts=True)
    of, which = np.divmod(pairs, len(said.words))
    rows = np.bincount(code.which, minlength=len(code.words))
    enough = count >= _ONE * rows[of]
    return {
        code.words[i]: said.words[j]
        for i, j in zip(of[enough].tolist(), which[enough].tolist(), strict=True)
        if code.words[i] and said.words[j]
    }
