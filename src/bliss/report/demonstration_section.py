"""Section about `bliss demo`: a bar of bliss and one of neighbour sampling for each exercise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bliss.report.cells import fixed, sentence_list
from bliss.report.charts import Chart, bars
from bliss.report.sections import ChartGroup, Names, Part, Section

OWN, OTHER = "bliss", "neighbour sampling"
NOTE = "Neighbour sampling is shown with the better of its two fanouts."


class ExerciseScores(NamedTuple):
    """Test scores of one exercise after the same time."""

    exercise: str  # with its metric
    own: float
    other: float


def demonstration_section(exercises: Sequence[ExerciseScores], seconds: float) -> Section:
    """The section about all exercises, with their chart."""
    described = [
        f"{one.exercise}: {OWN} {fixed(one.own, 3)}, {OTHER} {fixed(one.other, 3)}"
        for one in exercises
    ]
    scores = {OWN: [one.own for one in exercises], OTHER: [one.other for one in exercises]}
    title = f"Test scores after {seconds:g} s of training each"
    chart = Chart(
        Names()("demonstration", "scores"),
        title,
        f"{title}. {'. '.join(described)}.",
        bars([one.exercise.replace(" (", "\n(") for one in exercises], scores, "test score"),
    )
    won = sum(one.own > one.other for one in exercises)
    samplers = sentence_list([OWN, OTHER])
    return Section(
        kind="Demonstration",
        title=samplers,
        summary=[f"{OWN} has the higher test score in {won} of {len(exercises)} exercises."],
        tiles=[],
        parts=[Part("", [ChartGroup("Scores after the same time", [chart], NOTE)])],
    )
