"""Draw docs/figures/demo.svg: sampling error and validation F1 on the embedded graph.

Takes about three minutes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from bliss.data import load_dataset
from bliss.demo import input_errors
from bliss.train import RunFolder, Trainer, resolve

STEPS, EVERY = 300, 10
SHRUNK = (256, 128, 64)  # budgets of an eighth of the default ones
RUNS = {
    "full neighbourhoods": ({"sampler": "full"}, "black"),
    "neighbor, 10 each": ({"sampler": "neighbor"}, "#2563eb"),
    "BLISS, 2048/1024/512": ({"sampler": "bliss"}, "#c2410c"),
    "BLISS, 256/128/64": ({"sampler": "bliss", "budgets": SHRUNK}, "#f59e0b"),
    "PLADIES, 256/128/64": ({"sampler": "pladies", "budgets": SHRUNK}, "0.6"),
}


def main() -> None:
    """Train with each sampler, and draw both panels."""
    dataset = load_dataset("synthetic")
    errors: list[tuple[int, float, float]] = []
    curves, nodes = {}, {}
    for label, (settings, _) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            config = resolve(steps=STEPS, evaluate_every=EVERY, **settings)
            trainer = Trainer(config, dataset, run, print)

            def measure(now, trainer=trainer, label=label):
                if label == "BLISS, 2048/1024/512" and (now.step % EVERY == 0 or now.step == 1):
                    static, learnt, limit = input_errors(trainer)
                    errors.append((now.step, learnt / static, limit / static))

            nodes[label] = trainer.run(on_step=measure).sampled.nodes
            curves[label] = [(line.step, line.val_f1) for line in RunFolder(run).metrics()]

    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "bliss", "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.9), layout="constrained")
    step, learnt, limit = zip(*errors, strict=True)
    left.axhline(1, color="0.6", label="PLADIES")
    left.plot(step, learnt, color="#c2410c", label="BLISS (node)")
    left.plot(step, limit, color="black", linestyle=":", label="limit")
    left.set(xlabel="step", ylabel="sampling error", ylim=(0, 1.08), title="Input layer's variance")
    for label, (_, color) in RUNS.items():
        shown = f"{label}: {nodes[label]:,.0f} nodes per step"
        right.plot(*zip(*curves[label], strict=True), color=color, label=shown)
    right.set(xlabel="step", ylabel="validation F1", ylim=(0, 1), title="Embedded graph, GraphSAGE")
    for axes in (left, right):
        axes.spines.top.set_visible(False)
        axes.legend(frameon=False, fontsize=7.5)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
    print({label: (round(nodes[label]), curves[label][-1]) for label in RUNS}, errors[-1])


if __name__ == "__main__":
    main()
