"""Several processes: each draws its own batches, and each policy learns from those of all.

Run it with `torchrun --nproc-per-node 2 examples/torchrun.py`.
"""

from __future__ import annotations

import argparse
import hashlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data

from bliss import Bliss, BlockLoader
from bliss.data import load_dataset
from bliss.nn import GNN, ModelConfig


def fingerprint(state: dict[str, torch.Tensor]) -> str:
    """Digest of all bytes of a state."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(name.encode() + state[name].detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def main(steps: int = 20) -> None:
    """Train, and check that weights and policies of all processes are equal bit for bit."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    dataset = load_dataset("synthetic")
    graph = dataset.graph

    seeds = dataset.splits["train"]
    sampler = Bliss(graph, budgets=[512, 256])  # the same seed in all processes
    data = Data(x=dataset.x, y=dataset.y, num_nodes=graph.num_nodes)
    loader = BlockLoader(
        data, sampler, seeds, batch_size=64, shuffle=True, drop_last=True, shards=world, shard=rank
    )

    torch.manual_seed(0)
    config = ModelConfig(model="sage", layers=2, hidden=32)
    model = DistributedDataParallel(GNN(dataset.num_features, dataset.num_classes, config))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for batch, step in zip(loader, range(steps), strict=False):
        loss = torch.nn.functional.cross_entropy(model(batch.x, batch.blocks), batch.y)
        optimizer.zero_grad()
        loss.backward()  # averages the gradients of all processes
        optimizer.step()
        sampler.update(batch.blocks, group=True)  # learns from the batches of all processes
        if rank == 0 and step % 10 == 9:
            print(f"step {step + 1}  loss {loss:.3f}", flush=True)

    own = (fingerprint(model.state_dict()), fingerprint(sampler.state_dict()))
    everybody = [None] * world
    dist.all_gather_object(everybody, own)
    if len(set(everybody)) > 1:
        raise RuntimeError(f"weights or policies differ between processes: {everybody}")
    if rank == 0:
        print(f"{world} processes, one policy: {own[1][:12]}")
    del model, loss  # DDP must not outlive the group
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train in several processes.")
    parser.add_argument("--steps", type=int, default=20)
    main(parser.parse_args().steps)
