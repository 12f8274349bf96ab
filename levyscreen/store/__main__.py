"""`python -m levyscreen.store FOLDER ...`: writes the manifest of model folders that were made without one.

For folders whose files are known to be of one training. What can be told of that is checked: each file is read, and
weights are compared with the digests in config.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from levyscreen.errors import ModelError
from levyscreen.store.manifest import MANIFEST, seal
from levyscreen.store.members import load_members
from levyscreen.store.reading import read_model


def main(folders: list[str]) -> int:
    """Seals each folder; 1 where one of them holds no model, which stays as it is."""
    for name in folders:
        try:
            load_members(read_model(Path(name)))
        except ModelError as error:
            print(f"{name} is left as it is: {error}", file=sys.stderr)
            return 1
        seal(Path(name))
        print(f"written to {Path(name) / MANIFEST}", file=sys.stderr)
    return 0 if folders else 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
