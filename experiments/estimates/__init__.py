"""Bias and error of the estimates of single samplers."""
