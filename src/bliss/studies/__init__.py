"""Studies: what many runs, or one looked at closely, say of samplers."""
