"""Comparison of all samplers, and the bias and error of their estimates."""
