"""Recommendation with a model of PyG, unchanged: users, items, and items they have not chosen.

    python examples/links_blockwise.py

`load` makes random users and items: replace it by a function that returns your own pairs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from bliss import Bliss, Graph, LinkLoader
from bliss.links import rank_links, recall
from bliss.nn import Blockwise, infer


def load(users: int, items: int) -> tuple[Data, Tensor, Tensor]:
    """Users choose items of their taste: a graph, its links and other links. Data, [2, P] each."""
    generator = torch.Generator().manual_seed(0)
    taste = torch.randint(8, (users + items,), generator=generator)
    user = torch.randint(users, (60 * users,), generator=generator)
    item = torch.randint(users, users + items, (60 * users,), generator=generator)
    is_chosen = taste[user] == taste[item]
    links = torch.unique(torch.stack([user, item])[:, is_chosen], dim=1)
    links = links[:, torch.randperm(links.size(1), generator=generator)]
    held_out, links = links.tensor_split([links.size(1) // 10], dim=1)
    x = torch.randn(8, 32, generator=generator)[taste] * 0.3
    x = x + torch.randn(users + items, 32, generator=generator)
    both = torch.cat([links, links.flip(0)], dim=1)
    return Data(x=x, edge_index=both), links, held_out


def main(users: int = 2000, items: int = 1000, epochs: int = 4) -> float:
    """Train, and return recall@20 of links that were held out, among all items."""
    torch.manual_seed(0)
    data, links, held_out = load(users, items)
    graph = Graph.of(data)
    sampler = Bliss(graph, budgets=[1024, 512])
    is_item = torch.arange(users + items) >= users
    negatives = {"mode": "triplet", "amount": 1, "dst_weight": is_item.double()}
    loader = LinkLoader(data, sampler, links, neg_sampling=negatives, batch_size=256, shuffle=True)
    model = Blockwise(GraphSAGE(32, 64, num_layers=2, out_channels=32))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in loader:
            z = model(batch.x, batch.blocks)  # of users, items and negatives
            user = z[batch.src_index]
            margin = user * (z[batch.dst_pos_index] - z[batch.dst_neg_index])
            loss = functional.softplus(-margin.sum(1)).mean()  # BPR
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    z = infer(model, graph, data.x)
    candidates = is_item.nonzero()[:, 0]
    ranks = rank_links(
        lambda s, c: z[s] @ z[c].T, held_out, len(z), candidates=candidates, known=links
    )
    found = recall(ranks, 20)
    print(f"recall@20 among all items: {found:.3f}; by chance {20 / items:.3f}")
    return found


if __name__ == "__main__":
    main()
