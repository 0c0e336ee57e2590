from .block_loader import BlockLoader as BlockLoader
from .seed_loader import Seconds as Seconds
