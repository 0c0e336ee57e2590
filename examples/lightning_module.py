"""Lightning: train with BLISS in one process or several, with the policy in the checkpoint.

Run it with `python examples/lightning_module.py --devices 2`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning as L
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv

from bliss import Bliss
from bliss.data import load_dataset
from bliss.engines.lightning import BlockDataModule, PolicyCallback


class Net(L.LightningModule):
    """GraphSAGE over sampled blocks."""

    def __init__(self, features, classes, hidden=32):
        super().__init__()
        self.convs = torch.nn.ModuleList([GraphConv(features, hidden), GraphConv(hidden, classes)])
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, batch):
        """Logits of the seeds."""
        x = batch.x
        for conv, block in zip(self.convs, batch.blocks, strict=True):
            x = block.propagate(conv, self.dropout(x), observed=x)
            x = x if conv is self.convs[-1] else x.relu()
        return x

    def training_step(self, batch, _):
        """Return the loss of a batch."""
        loss = torch.nn.functional.cross_entropy(self(batch), batch.y)
        self.log("loss", loss, batch_size=batch.batch_size)
        return loss

    def validation_step(self, batch, _):
        """Log the accuracy of full neighbourhoods."""
        hits = (self(batch).argmax(1) == batch.y).float().mean()
        self.log("accuracy", hits, batch_size=batch.batch_size, prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main(
    folder: str | Path = "lightning_logs",
    epochs: int = 2,
    devices: int = 1,
    resume: str | None = None,
    **options,
) -> tuple[Net, Bliss, float]:
    """Train; returns the network, the sampler and the accuracy on the validation nodes."""
    L.seed_everything(0, verbose=False)
    dataset = load_dataset("synthetic")
    data = Data(x=dataset.x, y=dataset.y, num_nodes=dataset.graph.num_nodes)
    sampler = Bliss(dataset.graph, budgets=[1024, 512])
    splits = dataset.splits
    batches = BlockDataModule(
        data, sampler, splits["train"], splits["val"], batch_size=256, eval_batch_size=5000
    )
    net = Net(dataset.num_features, dataset.num_classes)
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        callbacks=[PolicyCallback(sampler, dropout_seed=0)],
        default_root_dir=folder,
        logger=False,
        **options,
    )
    trainer.fit(net, datamodule=batches, ckpt_path=resume)
    accuracy = float(trainer.callback_metrics["accuracy"])
    if trainer.is_global_zero:
        print(f"accuracy {accuracy:.3f}")
    return net, sampler, accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train with Lightning.")
    parser.add_argument("--devices", type=int, default=1, help="number of processes")
    parser.add_argument("--epochs", type=int, default=2)
    given = parser.parse_args()
    main(epochs=given.epochs, devices=given.devices)
