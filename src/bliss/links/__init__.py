"""Links: negatives without known links, and ranking metrics in bounded memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
