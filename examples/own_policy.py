"""Your own policy: an optimistic bandit over sources, compared with PLADIES, which does not learn.

Run it with `python examples/own_policy.py`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from bliss import PLADIES, BlockLoader, Full
from bliss.data import load_dataset
from bliss.nn import Blockwise
from bliss.policies.base import CoefficientPolicy
from bliss.studies.layer_errors import error, stakes


class Optimistic(CoefficientPolicy):
    """s_j = (m_j + bonus / sqrt(1 + n_j)) sqrt(sum_i alpha_ij^2).

    m_j is the mean of |h_j|, relative to its layer, over the n_j times that source j was kept. A
    source that was rarely kept gets a bonus, so that it is tried.
    """

    name = "optimistic"
    learns = True
    has_node_factor = True

    def __init__(self, graph, layers, bonus=0.3):
        super().__init__(graph, layers)
        self.bonus = bonus
        self.mean = np.ones((layers, graph.num_nodes), np.float32)
        self.count = np.zeros((layers, graph.num_nodes), np.float32)

    def node_factor(self, layer, node):
        """f_j of some nodes [C], beside the coefficients c_ij = alpha_ij of the base class."""
        return self.mean[layer, node] + self.bonus / np.sqrt(1 + self.count[layer, node])

    def digest(self, layer, feedback):
        """Norms of the kept sources; the floor keeps a source with input 0 reachable."""
        size = feedback.norm / max(float(feedback.norm.mean()), 1e-9)
        return {"source": feedback.src, "size": np.maximum(size, 0.03)}

    def apply(self, layer, updates):
        """Move the means of the sources towards their new norms."""
        for shard in updates:
            source = shard["source"]
            self.count[layer, source] += 1
            step = (shard["size"] - self.mean[layer, source]) / self.count[layer, source]
            self.mean[layer, source] += step

    def state_dict(self):
        """What a checkpoint has to hold."""
        return {"optimistic.mean": self.mean, "optimistic.count": self.count}


def main(steps: int = 60) -> float:
    """Train, and return the input layer's sampling variance, divided by that of PLADIES."""
    torch.manual_seed(0)
    dataset = load_dataset("synthetic")
    graph, x = dataset.graph, dataset.x
    sampler = PLADIES(graph, budgets=[1024, 512], policy=Optimistic(graph, layers=2))
    data = Data(x=x, y=dataset.y, num_nodes=graph.num_nodes)
    loader = BlockLoader(data, sampler, dataset.splits["train"], batch_size=128, shuffle=True)
    network = GraphSAGE(x.size(1), 32, num_layers=2, out_channels=dataset.num_classes)
    model = Blockwise(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for batch, _ in zip(loader, range(steps), strict=False):
        logits = model(batch.x, batch.blocks)  # each layer observes what digest gets
        loss = torch.nn.functional.cross_entropy(logits, batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sampler.update(batch.blocks)  # digest and apply, for each layer

    targets = dataset.splits["val"][:512]
    (block,) = Full(graph, layers=1).sample(targets, step=0)
    alike = np.ones(block.num_dst)
    stake = stakes(block, block.edge_weight, x[block.src].norm(dim=1), alike).absolute
    learnt, fixed = (
        error(one.inclusion(targets, layer=0).prob, stake)
        for one in (sampler, PLADIES(graph, budgets=[1024, 512]))
    )
    print(f"loss {loss:.3f}; variance of the input layer {learnt / fixed:.2f} of PLADIES'")
    return learnt / fixed


if __name__ == "__main__":
    main()
