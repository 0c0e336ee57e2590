"""A small graph with three types and five relations, and the homogeneous graph of each relation."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import HeteroData

from bliss.data import Dataset

SIZES = {"author": 40, "paper": 60, "venue": 5}
WIDTHS = {"author": 4, "paper": 6, "venue": 3}
RELATIONS = {
    ("author", "writes", "paper"): 200,
    ("paper", "cites", "paper"): 150,
    ("venue", "publishes", "paper"): 60,
    ("author", "reviews", "paper"): 40,
}


def hetero(width: int | None = None, seed: int = 0, weighted: bool = False) -> HeteroData:
    """The data, with features of different widths, or of one width, and weights of edges."""
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for name, size in SIZES.items():
        data[name].x = torch.randn(size, width or WIDTHS[name], generator=generator)
    data["paper"].y = torch.randint(0, 3, (SIZES["paper"],), generator=generator)
    data["paper"].train_mask = torch.arange(SIZES["paper"]) % 3 == 0
    for edge_type, number in RELATIONS.items():
        ends = [
            torch.randint(0, SIZES[name], (number,), generator=generator)
            for name in (edge_type[0], edge_type[2])
        ]
        data[edge_type].edge_index = torch.stack(ends)
        weight = torch.rand(number, generator=generator) + 0.1
        if weighted:
            data[edge_type].edge_weight = weight
        data[edge_type].edge_attr = torch.randn(number, 2, generator=generator)
    back = data["author", "writes", "paper"].edge_index.flip(0)
    data["paper", "rev_writes", "author"].edge_index = back
    if weighted:
        data["paper", "rev_writes", "author"].edge_weight = torch.ones(back.size(1))
    return data


def relation_means(data: HeteroData, x: dict[str, torch.Tensor]) -> dict[tuple, np.ndarray]:
    """Mean over the in-edges of each target under each relation; 0 without any. {type: [n, F]}."""
    means = {}
    for edge_type in data.edge_types:
        source, target = data[edge_type].edge_index
        size = SIZES[edge_type[2]]
        total = torch.zeros(size, x[edge_type[0]].size(1)).index_add(
            0, target, x[edge_type[0]][source]
        )
        degree = torch.bincount(target, minlength=size).clamp(min=1)
        means[edge_type] = (total / degree[:, None]).numpy()
    return means


def typed_dataset(number: int = 120, seed: int = 1) -> Dataset:
    """Papers of three classes; features of their authors show the class, venues have none."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(number) % 3
    data = HeteroData()
    data["author"].x = torch.randn(number, 4, generator=generator)
    data["author"].x[:, :3] += 2 * torch.nn.functional.one_hot(label, 3)
    data["paper"].x = torch.randn(number, 6, generator=generator)
    data["paper"].y = label
    data["venue"].num_nodes = 5
    same = torch.randint(0, number // 3, (number, 2), generator=generator) * 3 + label[:, None]
    papers = torch.arange(number).repeat_interleave(2)
    data["author", "writes", "paper"].edge_index = torch.stack([same.reshape(-1), papers])
    cited = torch.randint(0, number, (2, 2 * number), generator=generator)
    data["paper", "cites", "paper"].edge_index = cited
    venue = torch.randint(0, 5, (number,), generator=generator)
    data["venue", "publishes", "paper"].edge_index = torch.stack([venue, torch.arange(number)])
    return Dataset.from_data(data, "types", undirected=True)
