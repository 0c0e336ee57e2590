"""What rank 0 tells the other processes of an evaluation: scores, and the news of a survey."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from bliss.distributed.groups import Bytes
from bliss.distributed.packing import pack_news, unpack_news
from bliss.distributed.rounds import as_bytes
from bliss.feedback import News
from bliss.nn.layers import Layer
from bliss.samplers.base import Sampler


class SurveyRecorder:
    """Keeps the news of a survey, which all processes then give to their samplers."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.news: list[News] = []

    def survey(self, model: Iterable[Layer] | Layer, x: Tensor, **options: Any) -> Tensor:
        """Infer all nodes, as `Sampler.survey` does; the sampler learns nothing yet."""
        out, self.news = self.sampler.surveyed(model, x, **options)
        return out


def pack_scores(scores: dict[str, float], news: list[News]) -> Bytes:
    """Scores and the news of a survey as bytes."""
    text = as_bytes(json.dumps(scores))
    length = np.array([text.size], "<u8").view(np.uint8)
    return np.concatenate([length, text, pack_news([news])])


def unpack_scores(content: Bytes) -> tuple[dict[str, float], list[News]]:
    """Scores, and the news of a survey by layer; empty if there was none."""
    end = 8 + int(content[:8].view("<u8")[0])
    (news,) = unpack_news(content[end:])
    return json.loads(content[8:end].tobytes()), news
