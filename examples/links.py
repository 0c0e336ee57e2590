"""Link prediction with convolutions of PyG, trained on sampled blocks that do not see their links.

    python examples/links.py

`load` makes a random graph: replace it by a function that returns your own data as a PyG `Data`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from bliss import Bliss, Graph, LinkLoader
from bliss.links import Negatives, NegativeSampling, auc, hits, mrr, rank_links
from bliss.nn import infer
from bliss.nn.block import Block


def load(nodes: int = 3000) -> tuple[Data, Tensor]:
    """A graph whose links join nodes of a community, and links that it lacks. Data, [2, P]."""
    generator = torch.Generator().manual_seed(0)
    community = torch.randint(20, (nodes,), generator=generator)
    pairs = torch.randint(nodes, (2, 120 * nodes), generator=generator)
    is_kept = (community[pairs[0]] == community[pairs[1]]) & (pairs[0] < pairs[1])
    links = torch.unique(pairs[:, is_kept], dim=1)
    links = links[:, torch.randperm(links.size(1), generator=generator)]
    held_out, links = links.tensor_split([links.size(1) // 10], dim=1)
    x = torch.randn(20, 16, generator=generator)[community] * 0.5
    x = x + torch.randn(nodes, 16, generator=generator)
    return Data(x=x, edge_index=torch.cat([links, links.flip(0)], dim=1)), held_out


class Encoder(nn.Module):
    """Two layers; a layer is a function of its input and a block, so that `infer` can run it."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(inputs, hidden), SAGEConv(hidden, outputs)])

    def first(self, x: Tensor, block: Block) -> Tensor:
        """The hidden layer. x [S, in] -> [D, hidden]."""
        return block.propagate(self.convs[0], x).relu()

    def second(self, x: Tensor, block: Block) -> Tensor:
        """The output layer. x [S, hidden] -> [D, out]."""
        return block.propagate(self.convs[1], x)

    def __iter__(self):
        """The layers, input layer first."""
        return iter([self.first, self.second])

    def forward(self, x: Tensor, blocks: list[Block]) -> Tensor:
        """Embeddings of the seeds."""
        for layer, block in zip(self, blocks, strict=True):
            x = layer(x, block)
        return x


def main(nodes: int = 3000, epochs: int = 5) -> float:
    """Train, and return the AUC on links that were held out."""
    torch.manual_seed(0)
    data, held_out = load(nodes)
    graph = Graph.of(data)
    sampler = Bliss(graph, budgets=[1024, 512])
    links = data.edge_index[:, : data.num_edges // 2]  # one direction
    loader = LinkLoader(data, sampler, links, neg_sampling="binary", batch_size=256, shuffle=True)
    model = Encoder(16, 64, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in loader:
            z = model(batch.x, batch.blocks)  # of the ends of links and negatives
            source, target = batch.edge_label_index
            score = (z[source] * z[target]).sum(1)
            loss = functional.binary_cross_entropy_with_logits(score, batch.edge_label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)  # learn from the inputs that `propagate` recorded
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    z = infer(model, graph, data.x)  # full neighbourhoods, layer by layer
    negatives = Negatives(graph, NegativeSampling("binary"), known=held_out.numpy())
    drawn = negatives.draw(torch.arange(held_out.size(1)).numpy(), held_out[0].numpy(), epoch=0)
    scores = [(z[source] * z[target]).sum(1) for source, target in (held_out, drawn)]
    found = auc(*scores)
    ranks = rank_links(lambda s, c: z[s] @ z[c].T, held_out, nodes, known=data.edge_index)
    print(f"AUC of other links: {found:.3f}")
    print(f"among all nodes: MRR {mrr(ranks):.3f}, hits@100 {hits(ranks, 100):.3f}")
    return found


if __name__ == "__main__":
    main()
