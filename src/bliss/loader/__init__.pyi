from .block_loader import BlockLoader as BlockLoader
from .block_loader import Seconds as Seconds
