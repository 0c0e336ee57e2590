from .block_loader import BlockLoader as BlockLoader
from .edge_seeds import EdgeSeeds as EdgeSeeds
from .link_loader import LinkLoader as LinkLoader
from .seed_loader import Seconds as Seconds
from .seed_loader import SeedLoader as SeedLoader
from .seeds import NodeSeeds as NodeSeeds
