"""GraphSAGE with convolutions of PyG, trained on sampled blocks.

    python examples/sage.py

`load` makes a random graph: replace it by a function that returns your own data as a PyG `Data`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from bliss import Bliss, BlockLoader, Graph
from bliss.nn import infer
from bliss.nn.block import Block


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


class SAGE(nn.Module):
    """Two layers; a layer is a function of its input and a block, so that `infer` can run it."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(inputs, hidden), SAGEConv(hidden, outputs)])

    def first(self, x: Tensor, block: Block) -> Tensor:
        """The hidden layer. x [S, in] -> [D, hidden]."""
        return block.propagate(self.convs[0], x).relu()

    def second(self, x: Tensor, block: Block) -> Tensor:
        """The output layer. x [S, hidden] -> [D, out]."""
        return block.propagate(self.convs[1], functional.dropout(x, 0.3, self.training), observed=x)

    def __iter__(self):
        """The layers, input layer first."""
        return iter([self.first, self.second])

    def forward(self, x: Tensor, blocks: list[Block]) -> Tensor:
        """Logits of the seeds."""
        for layer, block in zip(self, blocks, strict=True):
            x = layer(x, block)
        return x


def main(nodes: int = 3000, epochs: int = 5) -> float:
    """Train, and return the accuracy on the other nodes."""
    torch.manual_seed(0)
    data = load(nodes)
    graph = Graph.of(data)
    sampler = Bliss(graph, budgets=[512, 256])
    loader = BlockLoader(data, sampler, data.train_mask, batch_size=128, shuffle=True)
    model = SAGE(16, 64, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in loader:
            loss = functional.cross_entropy(model(batch.x, batch.blocks), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)  # learn from the inputs that `propagate` recorded
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    logits = infer(model, graph, data.x)  # full neighbourhoods, layer by layer
    accuracy = (logits.argmax(1) == data.y)[~data.train_mask].float().mean().item()
    print(f"accuracy on other nodes: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
