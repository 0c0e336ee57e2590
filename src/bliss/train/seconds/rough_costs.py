"""Nodes that a step reads, and seconds of a set-up: roughly, before any was timed.

With L sampled layers, V nodes, m training seeds and walks of h hops, a step reads about n nodes:

    layer-wise             n = B + L k
    node-wise              n = B (1 + f)^L
    full neighbourhoods    n = V
    clusters               n = B V / m
    walks                  n = B (1 + h)
    other subgraphs        n = 2 B

and at most V.
"""

from __future__ import annotations

from bliss.graph import Graph
from bliss.samplers.config_base import SamplerConfig
from bliss.train.config import TrainConfig
from bliss.train.seconds.gradient_noise import Form, Size

BYTES_PER_SECOND = 2e9
"""Speed at which features are summed for an exact first hop, roughly."""
EDGE_SECONDS = {"cluster": 2.5e-6, "saint-rw": 5e-7}
"""Seconds per edge of a partition by METIS and of counting walks, roughly: the most that was
measured on four graphs of 0.1 to 2.6 million edges; see experiments/seconds."""


def first_hop_seconds(kind: SamplerConfig, graph: Graph, num_features: int) -> float:
    """Seconds of summing the features of all edges for an exact first hop."""
    is_exact = kind.is_first_hop_exact
    return 4 * graph.num_edges * num_features / BYTES_PER_SECOND if is_exact else 0.0


def setup_seconds(config: TrainConfig, graph: Graph, num_features: int) -> float:
    """Seconds before the first step."""
    own = graph.num_edges * EDGE_SECONDS.get(config.sampler.name, 0.0)
    return own + first_hop_seconds(config.sampler.config, graph, num_features)


def nodes_read(form: Form, config: TrainConfig, size: Size, num_nodes: int, num_seeds: int) -> int:
    """Nodes that a step reads, n, roughly."""
    sampler, (batch, budget) = config.sampler, size
    sampled = sampler.config.sampled_layers(config.network.layers)
    if form == "full":
        return num_nodes
    if form == "layer-wise":
        wanted = batch + sampled * budget
    elif form == "node-wise":
        wanted = batch * (1 + budget) ** sampled
    elif sampler.name == "cluster":
        wanted = batch * num_nodes // max(num_seeds, 1)
    else:
        wanted = batch * (1 + int(sampler.config.to_dict().get("length", 1)))
    return max(1, min(wanted, num_nodes))
