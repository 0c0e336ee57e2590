"""Samplers side by side, and how well each estimates."""
