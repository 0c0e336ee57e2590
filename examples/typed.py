"""Types of nodes and edges: a `HeteroData`, and a model made by `to_hetero`, over blocks.

    python examples/typed.py

One budget for each layer is divided among types and relations by the sampler. Authors have 40
features, papers 24 and venues 8, and each relation has weights of its own.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphSAGE, to_hetero

from bliss import Bliss, BlockLoader
from bliss.nn import Blockwise, infer


def load(papers: int = 2000) -> HeteroData:
    """Papers of 4 fields, which their authors and venues know better than they do."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"author": papers, "paper": papers, "venue": 20}
    fields = {name: torch.randint(4, (n,), generator=generator) for name, n in sizes.items()}
    data = HeteroData()
    for (name, field), width in zip(fields.items(), (40, 24, 8), strict=True):
        centre = torch.randn(4, width, generator=generator)
        noise = torch.randn(field.numel(), width, generator=generator)
        data[name].x = centre[field] * (0.1 if name == "paper" else 1.0) + 2 * noise
    for source, relation, degree in (("author", "writes", 3), ("venue", "publishes", 1)):
        target = torch.arange(papers).repeat_interleave(degree)
        order = fields[source].argsort()
        count = torch.bincount(fields[source], minlength=4)
        first = count.cumsum(0) - count
        field = fields["paper"][target]
        chosen = (torch.rand(target.numel(), generator=generator) * count[field]).long()
        pairs = torch.stack([order[first[field] + chosen], target])
        data[source, relation, "paper"].edge_index = pairs
        data["paper", f"rev_{relation}", source].edge_index = pairs.flip(0)
    data["paper"].y = fields["paper"]
    data["paper"].train_mask = torch.rand(papers, generator=generator) < 0.5
    return data


def main(papers: int = 2000, epochs: int = 5) -> float:
    """Train, and return the accuracy on the other papers."""
    torch.manual_seed(0)
    data = load(papers)
    sampler = Bliss(data, budgets=[600, 300])  # for all types together
    seeds = ("paper", data["paper"].train_mask)
    loader = BlockLoader(data, sampler, seeds, batch_size=128, shuffle=True)
    network = GraphSAGE((-1, -1), 32, num_layers=2, out_channels=4)
    model = Blockwise(to_hetero(network, data.metadata()))
    with torch.no_grad():
        infer(model, sampler.graph, data.x_dict)  # sets the widths of its lazy layers
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in loader:
            logits = model(batch.x_dict, batch.blocks)["paper"]
            loss = functional.cross_entropy(logits, batch["paper"].y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)
        sources = {name: batch[name].num_nodes for name in data.node_types}
        print(f"epoch {epoch}: loss {loss.item():.3f}, sources {sources}")

    logits = infer(model, sampler.graph, data.x_dict)["paper"]
    is_right = logits.argmax(1) == data["paper"].y
    accuracy = is_right[~data["paper"].train_mask].float().mean().item()
    print(f"accuracy on other nodes: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
