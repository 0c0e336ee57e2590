"""GATv2 with convolutions of PyG: the bandit learns from the attention.

    python examples/gatv2.py

`block.propagate` corrects the attention scores of kept edges by -log p and records the attention.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv

from bliss import Bliss, BlockLoader, Graph
from bliss.nn import infer
from bliss.nn.block import Block


def load(nodes: int = 2000) -> Data:
    """A graph of 4 classes. Feature 0 says which of a node's neighbours to trust."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(4, (nodes,), generator=generator)
    pairs = torch.randint(nodes, (2, 20 * nodes), generator=generator)
    is_same = y[pairs[0]] == y[pairs[1]]
    pairs = pairs[:, is_same | (torch.rand(20 * nodes, generator=generator) < 0.3)]
    x = torch.randn(nodes, 9, generator=generator)
    x[:, 1:] += 0.8 * torch.randn(4, 8, generator=generator)[y] * (x[:, :1] > 0)
    is_train = torch.rand(nodes, generator=generator) < 0.5
    return Data(x=x, y=y, edge_index=pairs, train_mask=is_train)


class GATv2(nn.Module):
    """Two layers of attention."""

    def __init__(self, inputs: int, hidden: int, outputs: int, heads: int = 4) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [GATv2Conv(inputs, hidden // heads, heads=heads), GATv2Conv(hidden, outputs)]
        )

    def __iter__(self):
        """The layers, functions of (x, block), input layer first."""
        yield lambda x, block: functional.elu(block.propagate(self.convs[0], x))
        yield lambda x, block: block.propagate(self.convs[1], x)

    def forward(self, x: Tensor, blocks: list[Block]) -> Tensor:
        """Logits of the seeds."""
        for layer, block in zip(self, blocks, strict=True):
            x = layer(x, block)
        return x


def main(nodes: int = 2000, epochs: int = 6) -> float:
    """Train, and return the accuracy on the other nodes."""
    torch.manual_seed(0)
    data = load(nodes)
    graph = Graph.of(data, self_loops="add")  # which GATv2Conv expects
    sampler = Bliss(graph, budgets=[512, 256])
    loader = BlockLoader(data, sampler, data.train_mask, batch_size=128, shuffle=True)
    model = GATv2(9, 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in loader:
            loss = functional.cross_entropy(model(batch.x, batch.blocks), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    logits = infer(model, graph, data.x)
    accuracy = (logits.argmax(1) == data.y)[~data.train_mask].float().mean().item()
    print(f"accuracy on other nodes: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
