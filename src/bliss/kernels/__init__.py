"""Arithmetic over arrays: compiled, and spelled out in plain NumPy in `reference`.

A kernel knows nothing of graphs, policies or torch. Each has a twin of the same name in
`reference` or `reference_nodewise`, and the tests compare the two draw for draw.
"""
