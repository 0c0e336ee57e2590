"""Draw docs/figures/demo.svg: how the bandit's error falls to the limit while the network learns.

Takes about a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from bliss.data import load_dataset
from bliss.demo import input_errors, without_edges
from bliss.train import RunFolder, Trainer, resolve

STEPS, EVERY = 300, 10


def main() -> None:
    """Train with and without the graph, and draw both panels."""
    dataset = load_dataset("synthetic")
    errors: list[tuple[int, float, float]] = []
    curves = {}
    for label, data in (("BLISS", dataset), ("without the graph", without_edges(dataset))):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            trainer = Trainer(resolve(steps=STEPS, evaluate_every=EVERY), data, run, print)

            def measure(now, trainer=trainer, label=label):
                if label == "BLISS" and (now.step % EVERY == 0 or now.step == 1):
                    static, learnt, limit = input_errors(trainer)
                    errors.append((now.step, learnt / static, limit / static))

            trainer.run(on_step=measure)
            curves[label] = [(line.step, line.val_f1) for line in RunFolder(run).metrics()]

    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "bliss", "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.6), layout="constrained")
    step, learnt, limit = zip(*errors, strict=True)
    left.axhline(1, color="0.6", label="PLADIES")
    left.plot(step, learnt, color="#c2410c", label="BLISS (node)")
    left.plot(step, limit, color="black", linestyle=":", label="limit")
    left.set(xlabel="step", ylabel="sampling error", ylim=(0, 1.08), title="Input layer's variance")
    for label, color in (("BLISS", "#c2410c"), ("without the graph", "0.6")):
        right.plot(*zip(*curves[label], strict=True), color=color, label=label)
    right.set(xlabel="step", ylabel="validation F1", ylim=(0, 1), title="Embedded graph, GraphSAGE")
    for axes in (left, right):
        axes.spines.top.set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
