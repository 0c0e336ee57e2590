"""Modules that the processes of a group need: imported once, in the process that forks them."""

import gc

import torch_geometric.data  # noqa: F401

import bliss.data.store
import bliss.distributed.shared_dataset
import bliss.train.loop  # noqa: F401
import tests.distributed.work  # noqa: F401

gc.collect()
gc.freeze()  # each training run collects garbage: forks need not look at the objects of modules
