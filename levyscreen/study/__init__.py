"""The paper's tables from one command: every estimator, side by side, on the same trained networks and targets."""
