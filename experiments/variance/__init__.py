"""Sampling variance against the best possible."""
