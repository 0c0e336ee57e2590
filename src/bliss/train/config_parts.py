"""Parts of a run's settings: data, sampler and training loop. `bliss.nn` has those of the network.

A field's docstring is its help on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from bliss import checks
from bliss.errors import InputError
from bliss.links.fractions import FRACTIONS, Window, check_fractions
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import SAMPLERS, check_preset
from bliss.train.budget_text import budgets_text, is_typed
from bliss.train.results import METRICS

TASKS = ("node", "link")
"""What can be predicted."""
AUTO = "auto"
"""Value of budgets that asks for a pilot, and of features and evaluate for a choice by the data."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Data set, features and weights of classes."""

    dataset: str = "synthetic"
    """Name of a data set, or path of a folder."""
    features: str = AUTO
    """Encoding of features: row (each row with a sum above 1 is divided by its sum), standard (each
    column minus its mean, divided by its deviation), raw (no change), or auto (for imported graphs
    standard in dense columns, and no change in columns of 0 and 1 and in sparse ones; for named
    data sets raw). Statistics are those of the training nodes, and the run stores them. See
    docs/graphs.md."""
    class_weights: str | tuple[float, ...] = "none"
    """Weights of classes in the loss: none, balanced (n / (C n_c) over training nodes; with several
    labels per node (n - n_c) / n_c), or one number per class, separated by commas."""
    self_loops: str = "add"
    """Self-loops of the graph: add (one per node, as in the paper and in every imported graph), or
    remove (none: a mean is over the neighbours alone; makes a copy of the edges in memory)."""
    feature_cache: int = 0
    """Bytes of memory for the rows of memory-mapped features that are drawn most; 0: no cache."""

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, str) or not self.dataset:
            raise InputError(
                f"dataset={self.dataset!r} must be the name of a data set or the path of a folder: "
                "write for instance cora."
            )
        checks.choice("features", self.features, (AUTO, "raw", "row", "standard"))
        object.__setattr__(self, "class_weights", _class_weights(self.class_weights))
        checks.choice("self_loops", self.self_loops, ("add", "remove"))
        checks.whole("feature_cache", self.feature_cache)


_OF_TIME = ("split", "order", "time_window", "windows", "window")  # settings of nodes and links


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What the network is trained for."""

    task: str = "node"
    """What is predicted: node (labels or targets of nodes) or link (edges between nodes; see
    docs/links.md)."""
    edge_type: tuple[str, ...] = ()
    """Relation of the predicted links in a heterogeneous graph: source type, name and target type,
    separated by commas, or its name. Default: the only one that is not the reverse of another."""
    rev_edge_type: tuple[str, ...] = ()
    """Its reverse relation, which is hidden and split with it. Default: that with its name after
    rev_."""
    decoder: str = "dot"
    """Score of a link from the embeddings of its ends: dot (product), distmult (dot product with
    learnt weights) or mlp (of the elementwise product)."""
    link_loss: str = "bce"
    """Loss of links: bce (links against random pairs), bpr or softmax (each link against random
    targets of its source)."""
    negatives: int = 1
    """Negatives per link in training."""
    exclude: str = "reverse"
    """Edges hidden from a batch of links: reverse (its links and their reverse), self (its links),
    or none."""
    split: str = AUTO
    """How links or nodes are split: time (by timestamp, the latest for testing; nothing later than
    a link or node is used for it, see docs/time.md), given (by the import; timestamps are not
    used), random (links only), or auto. For links, auto is given if the import has a split,
    otherwise time if edges have timestamps, otherwise random; for nodes, it is time if nodes have
    timestamps, otherwise given."""
    order: str = "random"
    """Batches with a split by time: random, or time (seeds with adjacent timestamps, in shuffled
    batches)."""
    time_window: int = 0
    """How far back in time a node or link sees, with a split by time: a number of units of the
    timestamps (microseconds for dates), up to its own for a node and before it for a link; 0:
    everything earlier."""
    windows: int = 1
    """Windows into which the test share of a split by time is cut. `bliss train --windows N` makes
    a run for each, trained on everything earlier and tested on the window."""
    window: int = 0
    """Number of the one window to run, from 1; 0: all of them."""
    edge_split: tuple[float, ...] = FRACTIONS
    """Shares of train, validation and test links, separated by commas."""
    bipartite: bool = False
    """Links lead from one set of nodes to another, as from users to items: negatives, candidates
    and predictions are then targets only."""
    test_messages: str = "train"
    """Edges that pass messages when test links are scored: train, or train+val."""
    candidates: str = "sampled"
    """Candidates of the metrics mrr, hits, recall and ndcg: sampled (random targets of the source
    of each link), or all (all nodes except the known targets of the source)."""
    ranked_negatives: int = 100
    """Negatives of each link with --candidates sampled."""
    hits: int = 10
    """K of the metric hits, the share of links among the first K candidates."""
    cutoff: int = 20
    """K of the metrics recall and ndcg, means over sources."""

    def __post_init__(self) -> None:
        checks.choice("task", self.task, TASKS)
        for name in ("edge_type", "rev_edge_type"):
            object.__setattr__(self, name, _edge_type(name, getattr(self, name)))
        checks.choice("decoder", self.decoder, ("dot", "mlp", "distmult"))
        checks.choice("link_loss", self.link_loss, ("bce", "bpr", "softmax"))
        checks.choice("exclude", self.exclude, ("reverse", "self", "none"))
        checks.choice("test_messages", self.test_messages, ("train", "train+val"))
        checks.choice("split", self.split, (AUTO, "random", "time", "given"))
        checks.choice("candidates", self.candidates, ("sampled", "all"))
        checks.choice("order", self.order, ("random", "time"))
        checks.flag("bipartite", self.bipartite)
        checks.whole("window", self.window)
        checks.whole("time_window", self.time_window)
        if self.window > checks.whole("windows", self.windows, least=1):
            raise InputError(
                f"window={self.window} is not one of windows={self.windows}: number them from 1."
            )
        if self.windows > 1 and self.split not in (AUTO, "time"):
            raise InputError(
                f"windows={self.windows} are windows of time, but split={self.split!r}: choose "
                "split time."
            )
        for name in ("negatives", "ranked_negatives", "hits", "cutoff"):
            checks.whole(name, getattr(self, name), least=1)
        object.__setattr__(self, "edge_split", check_fractions(self.edge_split))
        if self.candidates == "sampled":
            self.check_candidates(self.ranked_negatives + 1, "raise ranked_negatives")
        if self.task == "link":
            return
        if self.split == "random":
            raise InputError(
                "split='random' is a split of links; nodes are drawn when a graph is imported: "
                "choose split given or time, or pass task='link' (--task link)."
            )
        for one in fields(self):
            if one.name not in _OF_TIME and getattr(self, one.name) != one.default:
                raise InputError(
                    f"{one.name}={getattr(self, one.name)!r} is a setting of links: pass "
                    "task='link' (--task link), or leave it out."
                )

    def check_candidates(self, number: int, remedy: str) -> None:
        """Raise an error if K of a metric exceeds the number of candidates of a link."""
        for name in ("hits", "cutoff"):
            if getattr(self, name) > number:
                raise InputError(
                    f"{name}={getattr(self, name)} exceeds the {number} candidates of a link: "
                    f"lower it, or {remedy}."
                )

    @property
    def is_link(self) -> bool:
        """Whether links are predicted."""
        return self.task == "link"

    @property
    def ranks(self) -> dict[str, int]:
        """K of the metrics of links that have one."""
        if not self.is_link:
            return {}
        return {"hits": self.hits, "recall": self.cutoff, "ndcg": self.cutoff}

    @property
    def seen_window(self) -> int | None:
        """`time_window` as loaders and graphs take it; None: all that is earlier."""
        return self.time_window or None

    @property
    def test_window(self) -> Window:
        """The window of time that is tested."""
        return Window(max(self.window, 1), self.windows)


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """A sampler by name, with its settings and budgets."""

    name: str = "bliss"
    """Sampler, such as bliss, pladies, neighbor or full."""
    config: SamplerConfig = SAMPLERS["bliss"]
    """Settings of the sampler and its policy."""
    budgets: tuple[int | dict[str, int], ...] = ()
    """Budget per layer, input layer first: sources kept on average, or, for node-wise samplers,
    neighbours kept per target. With types, a layer may have one for each type or relation, and a
    slash separates layers: author=64,paper=128/32 (docs/types.md). Default: 2048,1024,512 for three
    layers (less on small graphs), or 10 neighbours (vrgcn: 2). With auto, `bliss train` chooses
    them by a pilot; see docs/advice.md."""

    def __post_init__(self) -> None:
        check_preset(self.name, self.config)
        if isinstance(self.budgets, str) and self.budgets == AUTO:
            raise InputError(
                "budgets='auto' needs a pilot on the graph: use `bliss train --budgets auto`, or "
                "config = bliss.studies.advise(settings, dataset).config, or pass numbers."
            )
        is_open = isinstance(self.budgets, (tuple, list)) and not self.budgets
        budgets = () if is_open else self.config.check_budgets(self.budgets)
        object.__setattr__(self, "budgets", budgets)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The budgets, one number per layer, for pilots: they do not divide them by type."""
        self.check_numbers()
        return tuple(one for one in self.budgets if isinstance(one, int))

    def check_numbers(self) -> None:
        """Refuse budgets of types and relations."""
        if is_typed(self.budgets):
            raise InputError(
                f"budgets={budgets_text(self.budgets)} are numbers of types or relations, but a "
                "pilot chooses one number per layer: pass one per layer, or leave budgets out."
            )

    @property
    def needs_budgets(self) -> bool:
        """Whether budgets are still to be filled in for a graph."""
        return not self.budgets and self.config.unit != "none"


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """Batches, optimizer, evaluation and processes of the training loop."""

    batch_size: int = 256
    """Seed nodes, or links, per step and shard; for subgraph samplers see docs/subgraphs.md."""
    shards: int = 1
    """Batches that make a step, each with its own seeds, draws and gradient; several processes
    divide them among themselves. See docs/processes.md."""
    reduction: str = "exact"
    """How gradients of several processes are added: exact (in the order of shards, the same bits
    for any number of processes), or allreduce (sends less)."""
    steps: int = 300
    """Training steps."""
    lr: float = 0.002
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty, added to the gradient."""
    schedule: str = "constant"
    """Learning rate schedule: constant, or linear decay to 0 at the last step."""
    lr_decay: float = 1.0
    """Factor applied to the learning rate every --decay-epochs epochs."""
    decay_epochs: int = 1
    """Epochs between decays of the learning rate."""
    seed: int = 0
    """Seed of initial weights, batch order, draws and dropout."""
    evaluate_every: int = 50
    """Steps between evaluations; a checkpoint follows each of them."""
    evaluate: str = AUTO
    """How networks are evaluated: full (exact, all nodes), split (exact, only the nodes of a split
    and their neighbourhoods), sampled (during training from sampled neighbourhoods, with a standard
    error), or auto: split if a layer's outputs at all nodes take more than 4 GiB, otherwise full.
    See docs/larger-than-memory.md."""
    evaluate_draws: int = 4
    """Draws of every neighbourhood with --evaluate sampled; the score is their mean."""
    survey: bool = True
    """Let the policy learn exact norms and attention from full evaluations during training."""
    select: str = AUTO
    """Metric whose best validation score selects the best step: auto (f1, r2 for regression, or
    auc for links), f1 (micro-F1), accuracy, macro_f1, auc or average_precision (two classes,
    several labels or links), loss (cross-entropy, the lowest), r2, mse or mae (the lowest), or, for
    links, mrr, hits, recall or ndcg."""
    patience: int = 0
    """Evaluations without a better validation score before the run stops; 0: never stop early."""
    prefetch: int = 0
    """Batches drawn ahead in a thread: 0, or 1 (the policy is then one step old)."""
    precision: str = "float32"
    """Precision of forward passes: float32, or bfloat16 (autocast)."""
    device: str = "cpu"
    """Device: cpu or cuda."""

    def __post_init__(self) -> None:
        checks.choice("schedule", self.schedule, ("constant", "linear"))
        checks.choice("evaluate", self.evaluate, (AUTO, "full", "split", "sampled"))
        checks.choice("select", self.select, (AUTO, *METRICS))
        checks.flag("survey", self.survey)
        checks.choice("reduction", self.reduction, ("exact", "allreduce"))
        checks.choice("precision", self.precision, ("float32", "bfloat16"))
        device = self.device.split(":")[0] if isinstance(self.device, str) else self.device
        checks.choice("device", device, ("cpu", "cuda"))
        for name in ("batch_size", "shards", "steps", "evaluate_every", "decay_epochs"):
            checks.whole(name, getattr(self, name), least=1)
        checks.whole("evaluate_draws", self.evaluate_draws, least=1)
        for name in ("seed", "patience"):
            checks.whole(name, getattr(self, name))
        checks.positive("lr", self.lr, "start with 0.002.")
        checks.positive("lr_decay", self.lr_decay, "1 leaves the learning rate unchanged.")
        checks.not_negative("weight_decay", self.weight_decay, "0 adds no penalty.")
        if isinstance(self.prefetch, bool) or self.prefetch not in (0, 1):
            raise InputError(
                f"prefetch={self.prefetch!r} must be 0 or 1: pass 1 to draw the next batch in a "
                "thread, or 0 to draw each on request."
            )


def _edge_type(field: str, given: Any) -> tuple[str, ...]:
    """Names of a relation and of its ends: three, two or one of them, or none."""
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else given
    is_list = isinstance(names, (tuple, list)) and len(names) <= 3
    if not is_list or not all(isinstance(name, str) and name for name in names):
        raise InputError(
            f"{field}={given!r} must be a source type, a name and a target type: write for "
            "instance user,rates,item."
        )
    return tuple(names)


def _class_weights(given: Any) -> str | tuple[float, ...]:
    """Check class weights: none, balanced or positive numbers."""
    if isinstance(given, str):
        return checks.choice("class_weights", given, ("none", "balanced"))
    if not isinstance(given, (tuple, list)) or not given:
        raise InputError(
            f"class_weights={given!r} must be 'none', 'balanced' or one number per class: write "
            "for instance (1, 2.5, 1)."
        )
    return tuple(checks.positive("class_weights", one, "give each class one.") for one in given)
