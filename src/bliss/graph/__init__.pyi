from .csc import WEIGHTED as WEIGHTED
from .graph import NORMS as NORMS
from .graph import Graph as Graph
from .graph import Norm as Norm
from .rows import HiddenEdges as HiddenEdges
from .rows import Rows as Rows
from .times import Cutoff as Cutoff
