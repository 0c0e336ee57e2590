from .graph import NORMS as NORMS
from .graph import Graph as Graph
from .graph import Norm as Norm
