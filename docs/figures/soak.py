"""Draw the curve of a long run, of benchmarks/results/soak.json: `python docs/figures/soak.py`."""

from __future__ import annotations

import json

from explanation import BLUE, FOLDER, GREEN, GREY, ORANGE, STYLE, plt, save

READINGS = FOLDER.parents[1] / "benchmarks" / "results" / "soak.json"


def draw_soak() -> None:
    """Memory, threads, files and learnt factors against the step."""
    curve = json.loads(READINGS.read_text(encoding="utf-8"))["curve"]
    step = [reading["step"] / 1000 for reading in curve]

    def values(name: str) -> list[float]:
        return [reading[name] for reading in curve]

    figure, (memory, counts, factors) = plt.subplots(1, 3, figsize=(8, 2.2), layout="constrained")
    memory.plot(step, values("rss_mb"), color=BLUE, lw=1)
    memory.set_ylim(0, 1.3 * max(values("rss_mb")))
    memory.set_title("memory of the process, MB", fontsize=9)
    counts.plot(step, values("files"), color=ORANGE, lw=1, label="open files")
    counts.plot(step, values("threads"), color=GREEN, lw=1, label="threads")
    counts.set_ylim(0, 1.8 * max(values("files")))
    counts.set_title("open files and threads", fontsize=9)
    counts.legend(loc="upper right", ncols=2, fontsize=8)
    factors.fill_between(
        step, values("factor_least"), values("factor_most"), color=GREY, alpha=0.3, lw=0
    )
    factors.plot(step, values("factor_mean"), color=GREY, lw=1)
    factors.set_title("log factors of nodes: range, mean", fontsize=9)
    for axes in (memory, counts, factors):
        axes.set_xlabel("thousand steps")
    save(figure, "soak")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        draw_soak()
