"""Loaders: batches of seeds with their sampled blocks and features, in PyG's form."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
