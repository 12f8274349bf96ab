import os

# Tensors here are tiny: threads that wait for each other on a busy machine cost ten times what they save. Set before
# torch is first imported; processes that a test starts inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
