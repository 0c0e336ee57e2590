"""Cluster-GCN: batches are clusters of a partition, so that few edges leave them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels import frontier
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers.configs import ClusterGCNConfig, SamplerConfig
from bliss.samplers.partition import check_metis, check_parts, partition
from bliss.samplers.subgraph import Subgraph, SubgraphSampler, Weights

NODES_PER_PART = 150  # about what the paper has on its largest graphs
LEAST_PARTS = 10


class ClusterGCN(SubgraphSampler):
    """Cluster-GCN (Chiang et al., 2019).

    The graph is cut once into `parts` clusters. Each epoch the clusters with wanted nodes are
    grouped at random, so many to a batch that it has about batch_size wanted nodes; every wanted
    node is in one batch. Edges between the clusters of a batch are kept, those that leave it are
    not, and each row is normalised anew:

        weight_ij = alpha_ij (sum over N_i of alpha_ik) / (sum over kept k of alpha_ik)

    which is the mean over the kept neighbours for norm="mean". Biased: an edge that leaves a
    cluster counts less often than one that does not, and no weight makes up for it; how much
    depends on the partition (docs/subgraphs.md has numbers). Not adaptive, no state but the
    partition, 8 bytes a node, which is made anew from the seed before the first batch.

    Cost: one pass over the in-edges of the batch's clusters; before the first batch a partition,
    O(V + E) a level.

    Partitions come from METIS: install bliss-gnn[metis]. `ClusterGCNConfig` has the options: parts.
    """

    Config: ClassVar[type[SamplerConfig]] = ClusterGCNConfig
    config: ClusterGCNConfig

    def __init__(self, data: Any, budgets: Any = (), **options: Any) -> None:
        super().__init__(data, budgets, **options)
        check_metis()
        nodes, parts = self.graph.num_nodes, self.config.parts
        if parts is None:
            parts = max(nodes // NODES_PER_PART, min(LEAST_PARTS, nodes))
        self.parts = check_parts(parts, self.graph)

    @cached_property
    def part(self) -> IntArray:
        """The cluster of each node. int64[V]."""
        seed = int(derive_key(self.seed, Stream.PARTITION))
        return partition(self.graph, self.parts, seed)

    def batches(self, epoch: int) -> list[IntArray]:
        """The wanted nodes of each group of clusters."""
        self._check_prepared()
        part = self.part[self._wanted]
        cluster = np.unique(part)
        shuffled = cluster[np.argsort(hashes(derive_key(self.seed, Stream.ORDER, epoch), cluster))]
        number = max(round(self._wanted.size / self._batch_size), 1)
        groups = np.array_split(shuffled, min(number, cluster.size))
        batch = np.empty(self.parts, np.int64)  # of each cluster
        for position, group in enumerate(groups):
            batch[group] = position
        order = np.argsort(batch[part], kind="stable")
        stop = np.cumsum(np.bincount(batch[part], minlength=len(groups)))[:-1]
        return np.split(self._wanted[order], stop)

    @cached_property
    def _members(self) -> tuple[IntArray, IntArray]:
        """Nodes by cluster: pointers int64[parts + 1] and nodes int64[V]."""
        stop = np.cumsum(np.bincount(self.part, minlength=self.parts))
        return np.concatenate([[0], stop]), np.argsort(self.part, kind="stable")

    def _draw(self, seeds: IntArray, step: int) -> tuple[IntArray, int]:
        """The clusters that the seeds are in."""
        start, member = self._members
        clusters = [member[start[c] : start[c + 1]] for c in np.unique(self.part[seeds])]
        others = np.setdiff1d(np.concatenate(clusters), seeds)
        return np.concatenate([seeds, others]), seeds.size

    def _weigh(self, subgraph: Subgraph) -> Weights:
        weight = subgraph.alpha.copy()
        frontier.rescale_rows(weight, subgraph.indptr, self.graph.coefficient_sum[subgraph.node])
        certain = np.ones(weight.size, np.float32)
        return Weights(weight, certain, np.ones(subgraph.node.size, np.float32), None)
