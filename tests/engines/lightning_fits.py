"""Fits of one small network with Lightning, for tests/engines/test_lightning.py.

Started by torchrun: each process writes what it has seen and learnt to rank0.json or rank1.json.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch_geometric.data import Data

from bliss import Bliss, BlockLoader, InputError
from bliss.data import load_dataset
from bliss.distributed.equality import checksum
from bliss.engines.lightning import BlockDataModule, PolicyCallback
from bliss.errors import DamagedError
from bliss.nn import GNN, ModelConfig, infer

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
DATASET = load_dataset("synthetic")
TRAIN, VAL = DATASET.splits["train"][::20][:250], DATASET.splits["val"][::50][:30]
DATA = Data(x=DATASET.x, y=DATASET.y, num_nodes=DATASET.graph.num_nodes)


class Net(L.LightningModule):
    """GraphSAGE that keeps the seeds it was trained on and evaluated on."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = ModelConfig(model="sage", layers=2, hidden=8, dropout=0.2)
        self.gnn = GNN(DATASET.num_features, DATASET.num_classes, config)
        self.trained: list[list[int]] = []
        self.evaluated: list[list[int]] = []

    def training_step(self, batch, _):
        self.trained.append(batch.input_id.tolist())
        return torch.nn.functional.cross_entropy(self.gnn(batch.x, batch.blocks), batch.y)

    def validation_step(self, batch, _):
        self.evaluated.append(batch.input_id.tolist())
        hits = (self.gnn(batch.x, batch.blocks).argmax(1) == batch.y).float().mean()
        self.log("accuracy", hits, batch_size=batch.batch_size, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.03)


def fit(folder: Path, processes: int, resume: Path | None = None, prefetch: int = 0) -> dict:
    """Two epochs of five steps, and what was seen and learnt."""
    net, sampler = Net(), Bliss(DATASET.graph, budgets=[60, 40])
    batches = BlockDataModule(
        DATA, sampler, TRAIN, VAL, batch_size=50 // processes, eval_batch_size=8, prefetch=prefetch
    )
    saving = ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)
    trainer = trainer_of(processes, PolicyCallback(sampler, dropout_seed=0), saving)
    trainer.fit(net, datamodule=batches, ckpt_path=resume)
    outputs = infer(net.gnn, DATASET.graph, DATASET.x)[VAL]
    return {
        "weights": checksum(net.state_dict()),
        "policy": checksum(sampler.state_dict()),
        "trained": net.trained,
        "evaluated": net.evaluated,
        "accuracy": float(trainer.callback_metrics["accuracy"]),
        "expected": float((outputs.argmax(1) == DATASET.y[VAL]).float().mean()),
    }


def trainer_of(processes: int, *callbacks: L.Callback) -> L.Trainer:
    strategy = "ddp" if processes > 1 else "auto"
    return L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=processes,
        strategy=strategy,
        num_sanity_val_steps=0,
        callbacks=list(callbacks),
        **QUIET,
    )


def refused(processes: int) -> dict[str, str]:
    """Sentences for loaders, policies and numbers of processes that do not fit."""
    found = {}
    sampler = Bliss(DATASET.graph, budgets=[60, 40])
    plain = BlockLoader(DATA, sampler, TRAIN, batch_size=25)
    torches = torch.utils.data.DataLoader(torch.arange(50))
    for name, loader in {"same batches": plain, "torch's loader": torches}.items():
        try:
            trainer_of(processes, PolicyCallback(sampler)).fit(Net(), loader)
        except InputError as error:
            found[name] = str(error)
    own = PolicyCallback(sampler)
    trainer = trainer_of(processes, own)
    if trainer.global_rank == 1:
        sampler.policy.state_dict()["node.0.code"][:9] += 1
    try:
        batches = BlockDataModule(DATA, sampler, TRAIN, batch_size=25)
        trainer.fit(Net(), datamodule=batches)
    except DamagedError as error:
        found["policies differ"] = str(error)
    return found


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # those of Lightning
    shared = folder / "whole"
    found = {"whole": fit(shared, 2)}
    for step in (3, 5):
        found[f"after {step}"] = fit(folder / f"more-{step}", 2, shared / f"step={step}.ckpt")
    found["refused"] = refused(2)
    rank = torch.distributed.get_rank()
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()  # its threads may abort a process that ends first


if __name__ == "__main__":
    main(Path(sys.argv[1]))
