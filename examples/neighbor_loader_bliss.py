"""A model of PyG on sampled neighbourhoods, before and after.

    python examples/neighbor_loader.py         # with NeighborLoader; needs pyg-lib or torch-sparse
    python examples/neighbor_loader_bliss.py   # the same with bliss

The two scripts differ in five lines. `load` makes a random graph: replace it by your own data.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import bliss


def load(nodes: int = 3000) -> Data:
    """A graph of 5 classes whose edges lead mostly to nodes of the same class."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(5, (nodes,), generator=generator)
    pairs = torch.randint(nodes, (2, 30 * nodes), generator=generator)
    is_kept = (y[pairs[0]] == y[pairs[1]]) | (torch.rand(30 * nodes, generator=generator) < 0.1)
    x = torch.randn(5, 16, generator=generator)[y] * 0.3
    x = x + torch.randn(nodes, 16, generator=generator)
    is_train = torch.rand(nodes, generator=generator) < 0.5
    return Data(x=x, y=y, edge_index=pairs[:, is_kept], train_mask=is_train)


def main(nodes: int = 3000, epochs: int = 5) -> float:
    """Train, and return the accuracy on the other nodes."""
    torch.manual_seed(0)
    data = load(nodes)
    network = {"num_layers": 2, "out_channels": 5, "dropout": 0.3, "norm": "BatchNorm", "jk": "cat"}
    model = bliss.nn.Blockwise(GraphSAGE(16, 64, **network))
    options = {"input_nodes": data.train_mask, "batch_size": 128, "shuffle": True}
    loader = bliss.BlockLoader(data, bliss.Bliss(data, [512, 256]), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        model.train()
        for batch in loader:
            out = model(batch.x, batch.blocks)
            loss = functional.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loader.node_sampler.update(batch.blocks)
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        logits = model(data.x, data.edge_index)
    accuracy = (logits.argmax(1) == data.y)[~data.train_mask].float().mean().item()
    print(f"accuracy on other nodes: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
