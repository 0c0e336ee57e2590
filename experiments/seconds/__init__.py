"""Test F1 of samplers at equal seconds of training."""
