"""A folder per claim: settings, command, our numbers beside the published ones."""
