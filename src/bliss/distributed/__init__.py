"""Several processes: groups, messages, agreement, shared memory, gradients and updates."""
