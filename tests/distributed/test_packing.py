"""News comes back from bytes as it was, sorted by source, logarithms rounded; damage is noticed."""

from __future__ import annotations

import numpy as np
import pytest

from bliss.distributed.packing import pack_news, unpack_news
from bliss.errors import InputError
from bliss.kernels.node_bandit import CODES_PER_UNIT

RANDOM = np.random.default_rng(0)
NEWS = {
    "nodes": {"source": RANDOM.permutation(500)[:90], "log_size": RANDOM.normal(size=90)},
    "edges": {
        "dst": np.array([4, 2], np.int32),
        "indptr": np.array([0, 2, 5]),
        "edge": np.array([7, 2**40, 3, -(2**62), 2**62]),
        "growth": RANDOM.normal(size=5).astype(np.float32),
    },
    "history": {"history.source": np.array([3, 1]), "history.input": np.eye(2, dtype=np.float16)},
    "survey": {"survey.norm": np.ones(4, np.float32), "survey.attention": np.arange(4, dtype="u1")},
    "none": {},
    "empty": {"source": np.empty(0, np.int64), "log_size": np.empty(0, np.float32)},
}


@pytest.mark.parametrize("name", NEWS)
def test_news_comes_back_as_it_was(name):
    shards = [[NEWS[name], {}], [NEWS["nodes"], NEWS[name]]]
    found = unpack_news(pack_news(shards))
    assert [len(shard) for shard in found] == [2, 2]
    for wanted, got in ((shards[0][0], found[0][0]), (shards[1][1], found[1][1])):
        assert list(got) == list(wanted)
        order = np.argsort(wanted["source"]) if "source" in wanted else slice(None)
        for key, array in wanted.items():
            assert got[key].dtype == array.dtype
            kept = array.astype(np.float16).astype(array.dtype) if key == "log_size" else array
            assert np.array_equal(got[key], kept[order])


def test_ids_take_a_byte_or_two():
    source = np.sort(RANDOM.choice(230_000, 7000, replace=False))
    assert pack_news([[{"source": source}]]).size < 1.5 * source.size


def test_logarithms_take_two_bytes_and_keep_what_policies_keep_of_them():
    size = RANDOM.normal(scale=3, size=7000)
    score = np.where(RANDOM.random(7000) < 0.1, np.nan, size)  # NaN: unknown
    packed = pack_news([[{"log_size": size, "log_score": score, "size": size}]])
    assert packed.size < (2 + 2 + 8) * 7000 + 200
    ((found,),) = unpack_news(packed)
    assert np.array_equal(found["size"], size)
    assert np.array_equal(np.isnan(found["log_score"]), np.isnan(score))
    half_a_code = 0.5 / CODES_PER_UNIT
    assert np.abs(found["log_size"] - size).max() < 0.25 * half_a_code
    ends = np.array([-69.08, 63.9, 69.08])  # of `log_size`; nothing overflows
    ((found,),) = unpack_news(pack_news([[{"log_size": ends}]]))
    assert np.abs(found["log_size"] - ends).max() < half_a_code


def test_no_news_at_all_is_a_header():
    assert unpack_news(pack_news([])) == []


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:20], lambda b: b[:4]])
def test_damaged_news_is_refused(damage):
    packed = pack_news([[NEWS["nodes"]]])
    with pytest.raises(InputError, match="an update from another process cannot be read"):
        unpack_news(damage(packed))


def test_news_of_objects_is_refused():
    packed = pack_news([[{"size": np.ones(1)}]])
    text = packed.tobytes().replace(b'"<f8"', b'"|O8"')
    with pytest.raises(InputError, match="arrays of type object"):
        unpack_news(np.frombuffer(text, np.uint8))
