"""Sampling variance relative to the limit."""
