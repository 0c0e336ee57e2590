"""Modules that the processes of a group need: imported once, in the process that forks them."""

import torch_geometric.data  # noqa: F401

import bliss.data.store
import bliss.distributed.shared_dataset
import bliss.train.loop  # noqa: F401
import tests.distributed.work  # noqa: F401
