"""Where the training loop runs: several processes, started by existing launchers."""
