"""Test F1 and training time of samplers over budgets."""
