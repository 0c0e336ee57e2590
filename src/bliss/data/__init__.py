"""Load graphs by name, from files and from folders. Only this package reads disk and network.

Listing the datasets imports neither torch nor any other heavy package: names other than those of
`bliss.data.catalog` are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
