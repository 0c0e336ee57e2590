"""Edge features: a convolution that reads `edge_attr` of the kept edges.

    python examples/edge_features.py

A batch has one tensor of edge features per block. Self-loops that bliss added have features 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv

from bliss import PLADIES, BlockLoader, Graph
from bliss.nn import infer
from bliss.nn.block import Block


def load(nodes: int = 2000) -> Data:
    """A graph whose edges have two features; the first says how much a message counts."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(nodes, (2, 10 * nodes), generator=generator)
    x = torch.randn(nodes, 4, generator=generator)
    edge_attr = torch.rand(10 * nodes, 2, generator=generator)
    total = torch.zeros(nodes).index_add(0, pairs[1], edge_attr[:, 0] * x[pairs[0], 0])
    is_train = torch.rand(nodes, generator=generator) < 0.5
    return Data(
        x=x, y=(total > 0).long(), edge_index=pairs, edge_attr=edge_attr, train_mask=is_train
    )


class GINE(nn.Module):
    """One layer of messages that depend on edge features, then a classifier."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        width = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
        self.conv = GINEConv(width, edge_dim=2)

    def layer(self, x: Tensor, block: Block, edge_attr: Tensor) -> Tensor:
        """Logits of the targets. x [S, F], edge_attr [E', 2] -> [D, out]."""
        return block.propagate(self.conv, x, edge_attr=edge_attr)


def main(nodes: int = 2000, epochs: int = 15) -> float:
    """Train, and return the accuracy on the other nodes."""
    torch.manual_seed(0)
    data = load(nodes)
    graph = Graph.of(data)  # keeps edge ids, because the data has edge_attr
    sampler = PLADIES(graph, budgets=[800])
    loader = BlockLoader(data, sampler, data.train_mask, batch_size=128, shuffle=True)
    model = GINE(4, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in loader:
            logits = model.layer(batch.x, batch.blocks[0], batch.edge_attr[0])
            loss = functional.cross_entropy(logits, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")

    def layer(x: Tensor, block: Block) -> Tensor:
        return model.layer(x, block, block.select_edges(data.edge_attr))

    model.eval()
    logits = infer(layer, graph, data.x)
    accuracy = (logits.argmax(1) == data.y)[~data.train_mask].float().mean().item()
    print(f"accuracy on other nodes: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
