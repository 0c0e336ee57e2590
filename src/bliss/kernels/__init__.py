"""Arithmetic over arrays, compiled with numba.

Kernels do not depend on graphs, policies or torch. Each has a plain NumPy twin of the same name in
`tests/twins`, and tests compare the two draw for draw.
"""
