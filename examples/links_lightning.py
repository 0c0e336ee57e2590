"""Lightning: link prediction whose batches do not see their links, with the policy in checkpoints.

python examples/links_lightning.py
"""

from __future__ import annotations

from pathlib import Path

import lightning as L
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv

from bliss import Bliss, Full, Graph, LinkLoader
from bliss.data import load_dataset
from bliss.engines.lightning import PolicyCallback
from bliss.links import LinkSplits, auc


class Net(L.LightningModule):
    """Two convolutions of PyG, and dot products as scores of links."""

    def __init__(self, features, hidden=64, outputs=32):
        super().__init__()
        self.convs = torch.nn.ModuleList([GraphConv(features, hidden), GraphConv(hidden, outputs)])

    def forward(self, batch):
        """Scores of the links of a batch."""
        z = batch.x
        for conv, block in zip(self.convs, batch.blocks, strict=True):
            z = block.propagate(conv, z)
            z = z if conv is self.convs[-1] else z.relu()
        source, target = batch.edge_label_index
        return (z[source] * z[target]).sum(1)

    def training_step(self, batch, _):
        """Return the loss of links and negatives."""
        return functional.binary_cross_entropy_with_logits(self(batch), batch.edge_label)

    def validation_step(self, batch, _):
        """Log the AUC of links that are no messages."""
        score, is_link = self(batch), batch.edge_label == 1
        self.log("auc", auc(score[is_link], score[~is_link]), batch_size=len(score), prog_bar=True)

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.005)


def main(folder: str | Path = "lightning_logs", epochs: int = 3, **options) -> float:
    """Train; returns the AUC of validation links."""
    L.seed_everything(0, verbose=False)
    dataset = load_dataset("synthetic")
    splits = LinkSplits.random(dataset.graph, (0.85, 0.1, 0.05), seed=0)
    graph: Graph = splits.messages("train")  # without the edges of the other links
    data = Data(x=dataset.x, num_nodes=graph.num_nodes)
    sampler = Bliss(graph, budgets=[1024, 512])
    given = {"neg_sampling": "binary", "batch_size": 1024}
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[PolicyCallback(sampler)],
        default_root_dir=folder,
        logger=False,
        **options,
    )
    net = Net(dataset.num_features)
    train = LinkLoader(data, sampler, splits.train, shuffle=True, **given)
    val = LinkLoader(data, Full(graph, layers=2), splits.val, **given)
    trainer.fit(net, train, val)
    found = float(trainer.callback_metrics["auc"])
    print(f"AUC of other links: {found:.3f}")
    return found


if __name__ == "__main__":
    main()
