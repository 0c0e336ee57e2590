"""Graphs with types: accuracy at equal seconds, and one budget against splits by hand."""
