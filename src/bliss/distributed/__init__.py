"""Several processes: groups, messages, agreement, shared memory, exchange of gradients and news."""
