"""Folders that bliss wrote: stores, runs and studies, damaged or forged."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch

from bliss.data import import_graph, load_dataset
from bliss.data.store import DATASET_HEADER, GRAPH_HEADER
from bliss.report.load import load
from bliss.storage.digests import file_digest, new_digest, sealed, tensor_digest
from bliss.train import RunFolder, Trainer, predict
from bliss.train.folder import settings_digest
from tests.build import make_dataset
from tests.fuzz.mutations import NUMBERS, VALUES, Random, change_json, mutate, pick
from tests.fuzz.subjects import READERS, Subject, dataset_digest, digest_of
from tests.report import factory
from tests.train.runs import quiet, settings, stopped

STEPS = 12  # of the runs: evaluated at 4 and 8, stopped at 10


def write_store(folder: Path) -> None:
    """A store with weights and names, made of tables."""
    source = folder.parent / f"{folder.name}-source"
    source.mkdir()
    READERS["PyG .pt"].make(source)
    folder.rmdir()
    import_graph(folder, graph=source / "graph.pt")
    shutil.rmtree(source)


def read_store(folder: Path) -> str:
    return dataset_digest(load_dataset(folder, verify=True))


def forge_store(folder: Path) -> None:
    """Bring the digests of the headers up to date, as a forger would."""
    with suppress(Exception):  # a header that is no longer JSON stays as it is
        for header in (GRAPH_HEADER, DATASET_HEADER):
            values = json.loads((folder / header).read_text())
            values.pop("digest", None)
            values["files"] = {
                name: file_digest(folder / name)
                for name in values["files"]
                if (folder / name).is_file()
            }
            (folder / header).write_text(json.dumps(sealed(values)))


@cache
def toy() -> Any:
    return make_dataset()


def trainer(folder: Path) -> Trainer:
    config = settings(steps=STEPS, evaluate_every=4, model="sage", policy="node")
    return Trainer(config, toy(), folder, quiet)


def write_stopped(folder: Path) -> None:
    """A run stopped after step 10 of 12."""
    stopped(trainer(folder), 10, 15)


def write_finished(folder: Path) -> None:
    trainer(folder).run()


def read_resumed(folder: Path) -> str:
    """Resume the run to its end; gives a digest of everything that does not depend on time."""
    trainer(folder).run(resume=True)
    return read_run(folder)


def read_run(folder: Path) -> str:
    run = RunFolder(folder)
    result, best, checkpoint = run.result(), run.load_best(), run.load_checkpoint(quiet)
    run.settings()
    scores = None if result is None else (result.test_score, result.best_step, result.sampled)
    weights = [best[name] for name in sorted(best)]
    steps = [line.step for line in run.times()]
    assert checkpoint is not None
    return digest_of(scores, *weights, run.metrics(), steps)


def read_predictions(folder: Path) -> str:
    return digest_of(predict(folder, toy()))


def forge_run(folder: Path) -> None:
    """Bring all digests of a run up to date, as a forger would."""
    owner = ""
    with suppress(Exception):
        owner = settings_digest(RunFolder(folder).settings())
    with suppress(Exception):
        _seal(folder / "result.json", owner)
    for name in ("metrics.jsonl", "times.jsonl"):
        with suppress(Exception):
            _seal_lines(folder / name, owner)
    with suppress(Exception):
        weights = safetensors.torch.load((folder / "best.safetensors").read_bytes())
        marks = {"settings": owner, "digest": tensor_digest(weights)}
        data = safetensors.torch.save(weights, metadata=marks)
        (folder / "best.safetensors").write_bytes(data)
    for file in (folder / "checkpoints").glob("*.json"):
        with suppress(Exception):
            counters = json.loads(file.read_text())
            counters.pop("digest", None)
            counters["settings"] = owner
            digest = new_digest()
            digest.update(file.with_suffix(".safetensors").read_bytes())
            digest.update(json.dumps(counters, sort_keys=True).encode())
            file.write_text(json.dumps(counters | {"digest": digest.hexdigest()}))


def _seal(file: Path, owner: str) -> None:
    values = json.loads(file.read_text())
    values.pop("digest", None)
    file.write_text(json.dumps(sealed(values, after=owner)))


def _seal_lines(file: Path, last: str) -> None:
    lines = []
    for line in file.read_text().splitlines():
        values = json.loads(line)
        values.pop("digest", None)
        lines.append(sealed(values, after=last))
        last = lines[-1]["digest"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def change_one_key(name: str, content: bytes, random: Random) -> bytes:
    """Give one part, setting or option an odd value."""
    values = place = json.loads(content)
    while isinstance(place[key := pick(random, list(place))], dict) and random.random() < 0.9:
        place = place[key]
    place[key] = pick(random, VALUES)
    return json.dumps(values).encode()


def change_inside(name: str, content: bytes, random: Random) -> bytes:
    """Change values and keep the format, so that a forger's digests are reached."""
    if name.endswith(".json"):
        return change_json(content, random)
    heads = {".safetensors": 8 + int.from_bytes(content[:8], "little"), ".npy": 128}
    start = heads.get(Path(name).suffix)
    if start is not None and random.random() < 0.7:
        at = start + int(random.integers(max(len(content) - start, 1))) // 8 * 8
        value = (pick(random, NUMBERS) % 2**64).to_bytes(8, "little")
        return (content[:at] + value + content[at + 8 :])[: len(content)]
    return mutate(name, content, random)


def write_studies(folder: Path) -> None:
    factory.comparison(folder, models=("sage",))
    factory.variance(folder)


def read_studies(folder: Path) -> str:
    return digest_of(*(msgspec.to_builtins(study.record) for study in load([folder])))


SAVED: dict[str, Subject] = {
    "store": Subject(write_store, read_store, is_digested=True),
    "store, forged": Subject(write_store, read_store, mend=forge_store, change=change_inside),
    "run, resumed": Subject(write_stopped, read_resumed, is_digested=True),
    "run, resumed, forged": Subject(
        write_stopped, read_resumed, mend=forge_run, change=change_inside
    ),
    "run, read": Subject(write_finished, read_run, is_digested=True),
    "run, read, forged": Subject(write_finished, read_run, mend=forge_run, change=change_inside),
    "run, predictions": Subject(write_finished, read_predictions, "best.*", is_digested=True),
    "config.json": Subject(
        write_finished, read_predictions, "config.json", is_digested=True, change=change_one_key
    ),
    "config.json, forged": Subject(
        write_finished, read_predictions, "config.json", mend=forge_run, change=change_one_key
    ),
    "studies": Subject(write_studies, read_studies, "*.json"),
}
