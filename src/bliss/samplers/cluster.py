"""Cluster-GCN: batches are unions of clusters, so that few edges leave a batch."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bliss.arrays import IntArray
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import ClusterGCNConfig
from bliss.samplers.partition import check_metis, check_parts, partition
from bliss.samplers.subgraph import Subgraph, SubgraphSampler, Weights, renormalised

NODES_PER_PART = 150  # roughly the paper's value for its largest graphs
LEAST_PARTS = 10


class ClusterGCN(SubgraphSampler):
    """Cluster-GCN (Chiang et al., 2019).

    The graph is partitioned once into `parts` clusters. In each epoch, the clusters that contain
    seed nodes are grouped at random into batches of about batch_size seed nodes; every seed node is
    in exactly one batch. Edges within a batch are kept, also between its clusters; edges that leave
    it are dropped, and the others are renormalised within the batch. With a_ij the given weight of
    an edge, otherwise 1, and d_i the sum of a_ik over the kept edges of i, `renormalise` is

    * rows (default): weight_ij = alpha_ij (sum over N_i of alpha_ik) / (sum over kept of alpha_ik);
    * mean: weight_ij = a_ij / d_i, the authors' (D+I)^-1 (A+I) if the graph has self-loops;
    * symmetric: weight_ij = a_ij / sqrt(d_i d_j), for graph convolutions with norm="gcn".

    With norm="mean", "rows" and "mean" are the same. The authors' diagonal enhancement and their
    precomputed first hop are not offered. Biased: edges between clusters are
    used less often than edges within one, and no weight corrects for it. The size of the bias
    depends on the partition (docs/subgraphs.md has numbers). Not adaptive. No state except the
    partition, 8 bytes per node, which is recomputed from the seed before the first batch.

    Cost: one pass over the in-edges of the batch's clusters; before the first batch, the partition,
    O(V + E) per level.

    Partitions come from METIS: install bliss-gnn[metis]. `ClusterGCNConfig` has the options: parts,
    renormalise.
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
        """Cluster of each node. int64[V]."""
        seed = int(derive_key(self.seed, Stream.PARTITION))
        return partition(self.graph, self.parts, seed)

    def batches(self, epoch: int) -> list[IntArray]:
        """Seed nodes of each group of clusters."""
        self._check_prepared()
        part = self.part[self._seed_nodes]
        cluster = np.unique(part)
        shuffled = cluster[np.argsort(hashes(derive_key(self.seed, Stream.ORDER, epoch), cluster))]
        number = max(round(self._seed_nodes.size / self._batch_size), 1)
        groups = np.array_split(shuffled, min(number, cluster.size))
        batch = np.empty(self.parts, np.int64)  # batch of each cluster
        for position, group in enumerate(groups):
            batch[group] = position
        order = np.argsort(batch[part], kind="stable")
        stop = np.cumsum(np.bincount(batch[part], minlength=len(groups)))[:-1]
        return np.split(self._seed_nodes[order], stop)

    @cached_property
    def _members(self) -> tuple[IntArray, IntArray]:
        """Nodes by cluster: pointers int64[parts + 1] and nodes int64[V]."""
        stop = np.cumsum(np.bincount(self.part, minlength=self.parts))
        return np.concatenate([[0], stop]), np.argsort(self.part, kind="stable")

    def _draw(self, seeds: IntArray, key: np.uint64) -> tuple[IntArray, int]:
        """All nodes of the clusters that contain the seeds, seeds first."""
        start, member = self._members
        clusters = [member[start[c] : start[c + 1]] for c in np.unique(self.part[seeds])]
        others = np.setdiff1d(np.concatenate(clusters), seeds)
        return np.concatenate([seeds, others]), seeds.size

    def _weigh(self, subgraph: Subgraph) -> Weights:
        weight = renormalised(self.graph, subgraph, self.config.renormalise)
        certain = np.ones(weight.size, np.float32)
        return Weights(weight, certain, np.ones(subgraph.node.size, np.float32), None)
