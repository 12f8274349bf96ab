"""What the process leaves behind."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from levyscreen import machine
from levyscreen.store import load_model
machine.prepare()
load_model()
assert "torch._dynamo" not in sys.modules, "a model is loaded together with torch's compiler, which takes seconds"
import torch._dynamo
"""


@pytest.mark.skipif(sys.platform == "win32", reason="another variable names the folder of temporaries")
def test_torch_leaves_no_folder_among_the_temporaries_and_a_model_loads_without_its_compiler(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment | {"TMPDIR": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []
