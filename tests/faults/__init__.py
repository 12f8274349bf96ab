"""The fault matrix: `make faults` prints it, tests/faults/test_matrix.py runs a short form of every row."""
