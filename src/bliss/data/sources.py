"""The named datasets: their files, web addresses, digests and readers.

This module imports nothing heavy, so that names can be listed quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="
OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
DGL = "https://data.dgl.ai/dataset"

PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
SAINT_FILES = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
OGBN_SPLITS = {"ogbn-arxiv": "time", "ogbn-products": "sales_ranking"}
BENCHMARK_FILES = {
    "computers": "amazon_electronics_computers.npz",
    "photo": "amazon_electronics_photo.npz",
    "cs": "ms_academic_cs.npz",
    "physics": "ms_academic_phy.npz",
}


@dataclass(frozen=True)
class Source:
    """A file to download, or a zip archive of several."""

    url: str
    file: str  # path under the folder of the dataset
    sha256: str = ""  # empty if unknown: the digest seen first is recorded and compared later
    members: Mapping[str, str] = field(default_factory=dict)  # of an archive: file -> member

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the dataset gets from this source, as paths under its folder."""
        return tuple(self.members) or (self.file,)


@dataclass(frozen=True)
class Entry:
    """One named dataset."""

    folder: str  # under the root
    files: tuple[str, ...]  # needed files, as paths under the folder
    reader: str  # "module:function" of bliss.data; called with name, folder and seed
    sources: tuple[Source, ...] = ()


def ogbn_files(name: str) -> tuple[str, ...]:
    """Files of an OGB dataset: edges, features, labels and the three splits."""
    raw = (f"raw/{part}.csv.gz" for part in ("edge", "node-feat", "node-label"))
    parts = (f"split/{OGBN_SPLITS[name]}/{part}.csv.gz" for part in ("train", "valid", "test"))
    return (*raw, *parts)


def _entry(folder: str, reader: str, *sources: Source) -> Entry:
    return Entry(folder, tuple(f for source in sources for f in source.files), reader, sources)


def _planetoid(folder: str, digests: str) -> Entry:
    files = (f"ind.{folder.lower()}.{part}" for part in PLANETOID_PARTS)
    pairs = zip(files, digests.split(), strict=True)
    sources = (Source(f"{PLANETOID}/{file}", f"raw/{file}", digest) for file, digest in pairs)
    return _entry(folder, "planetoid:read_planetoid", *sources)


def _saint(folder: str, *drive_ids: str) -> Entry:
    pairs = zip(SAINT_FILES, drive_ids, strict=True)
    sources = (Source(DRIVE + drive_id, f"raw/{file}") for file, drive_id in pairs)
    return _entry(folder, "graphsaint:read_saint", *sources)


def _benchmark(folder: str) -> Entry:
    file = BENCHMARK_FILES[folder.lower()]
    source = Source(f"{BENCHMARK}/{file}", f"raw/{file}")
    return _entry(folder, "benchmark:read_benchmark", source)


def _ogbn(name: str) -> Entry:
    short = name.removeprefix("ogbn-")
    members = {file: f"{short}/{file}" for file in ogbn_files(name)}
    source = Source(f"{OGB}/{short}.zip", f"{short}.zip", members=members)
    return _entry(name.replace("-", "_"), "ogbn:read_ogbn", source)


ENTRIES = {
    "cora": _planetoid(
        "Cora",
        """
        23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab
        b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a
        9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543
        94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1
        41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad
        2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71
        58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d
        297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875
        """,
    ),
    "citeseer": _planetoid(
        "CiteSeer",
        """
        d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
        539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
        2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
        8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
        55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
        f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
        d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
        2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
        """,
    ),
    "pubmed": _planetoid(
        "PubMed",
        """
        fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33
        4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d
        508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e
        e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3
        ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd
        0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e
        5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9
        b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5
        """,
    ),
    "flickr": _saint(
        "Flickr",
        "1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy",
        "1join-XdvX3anJU_MLVtick7MgeAQiWIZ",
        "1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9",
        "1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7",
    ),
    "reddit": _entry(
        "Reddit",
        "reddit:read_reddit",
        Source(
            f"{DGL}/reddit.zip",
            "reddit.zip",
            members={f"raw/{file}": file for file in ("reddit_data.npz", "reddit_graph.npz")},
        ),
    ),
    "reddit2": _saint(
        "Reddit2",
        "1sncK996BM5lpuDf75lDFqCiDZyErc1c2",
        "1ZsHaJ0ussP1W722krmEIp_8pwKAoi5b3",
        "1JF3Pjv9OboMNYs2aXRQGbJbc4t_nDd5u",
        "1nJIKd77lcAGU4j-kVNx_AIGEkveIKz3A",
    ),
    "yelp": _saint(
        "Yelp",
        "1Juwx8HtDwSzmVIJ31ooVa1WljI4U5JnA",
        "1Zy6BZH_zLEjKlEFSduKE5tV9qqA_8VtM",
        "1VUcBGr0T0-klqerjAjxRmAqFuld_SMWU",
        "1NI5pa5Chpd-52eSmLW60OnB3WS5ikxq_",
    ),
    # PPI in GraphSAINT's form has no download; the files that PyG fetches are of another form.
    "ppi": Entry("PPI", tuple(f"raw/{file}" for file in SAINT_FILES), "graphsaint:read_saint"),
    "computers": _benchmark("Computers"),
    "photo": _benchmark("Photo"),
    "cs": _benchmark("CS"),
    "physics": _benchmark("Physics"),
    "ogbn-arxiv": _ogbn("ogbn-arxiv"),
    "ogbn-products": _ogbn("ogbn-products"),
    "synthetic": Entry("", (), "synthetic:make_communities"),
}
