from .csc import WEIGHTED as WEIGHTED
from .cutoff import Cutoff as Cutoff
from .graph import NORMS as NORMS
from .graph import Graph as Graph
from .graph import Norm as Norm
from .rows import HiddenEdges as HiddenEdges
from .rows import Rows as Rows
