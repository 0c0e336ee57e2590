"""bliss: train graph neural networks with layer-wise samplers that learn which nodes matter."""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
