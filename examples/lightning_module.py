"""Lightning: a module that trains with BLISS and keeps the policy in its checkpoints.

Run it with `python examples/lightning_module.py`.
"""

from __future__ import annotations

from pathlib import Path

import lightning as L
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv

from bliss import Bliss, BlockLoader, Full
from bliss.data import load_dataset


class Net(L.LightningModule):
    """GraphSAGE over sampled blocks."""

    def __init__(self, loader, features, classes, hidden=32):
        super().__init__()
        self.loader, self.sampler = loader, loader.node_sampler
        self.convs = torch.nn.ModuleList([GraphConv(features, hidden), GraphConv(hidden, classes)])

    def forward(self, batch):
        """Logits of the seeds."""
        x = batch.x
        for conv, block in zip(self.convs, batch.blocks, strict=True):
            block.observe(x)  # what the bandit learns from
            x = conv((x, x[: block.num_dst]), block.edge_index, block.edge_weight)
            x = x if conv is self.convs[-1] else x.relu()
        return x

    def train_dataloader(self):
        """Batches with blocks; the module keeps the loader to save its position."""
        return self.loader

    def training_step(self, batch, _):
        """Return the loss of a batch."""
        loss = torch.nn.functional.cross_entropy(self(batch), batch.y)
        self.log("loss", loss, batch_size=batch.batch_size)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        """Let the bandit learn."""
        self.sampler.update(batch.blocks)

    def validation_step(self, batch, _):
        """Log the accuracy of full neighbourhoods."""
        hits = (self(batch).argmax(1) == batch.y).float().mean()
        self.log("accuracy", hits, batch_size=batch.batch_size, prog_bar=True)

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def on_save_checkpoint(self, checkpoint):
        """Save what the bandit has learnt, and the position in the epochs."""
        checkpoint["policy"] = self.sampler.state_dict()
        checkpoint["position"] = self.loader.state_dict()

    def on_load_checkpoint(self, checkpoint):
        """Continue with the same policy and the next batch; Lightning restores the rest."""
        self.sampler.load_state_dict(checkpoint["policy"])
        self.loader.load_state_dict(checkpoint["position"])


def main(
    folder: str | Path = "lightning_logs", epochs: int = 2, resume: str | None = None, **options
) -> tuple[Net, float]:
    """Train, and return the network and its accuracy on the validation nodes."""
    L.seed_everything(0, verbose=False)
    dataset = load_dataset("synthetic")
    data = Data(x=dataset.x, y=dataset.y, num_nodes=dataset.graph.num_nodes)
    sampler = Bliss(dataset.graph, budgets=[1024, 512])
    train = BlockLoader(data, sampler, dataset.splits["train"], batch_size=256, shuffle=True)
    full = Full(dataset.graph, layers=2)
    val = BlockLoader(data, full, dataset.splits["val"], batch_size=5000)
    net = Net(train, dataset.num_features, dataset.num_classes)
    trainer = L.Trainer(
        max_epochs=epochs, default_root_dir=folder, accelerator="cpu", logger=False, **options
    )
    trainer.fit(net, val_dataloaders=val, ckpt_path=resume)
    accuracy = float(trainer.callback_metrics["accuracy"])
    print(f"accuracy {accuracy:.3f}")
    return net, accuracy


if __name__ == "__main__":
    main()
