"""A step of several shards in one process: the mean of their gradients, one step of time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss.distributed.agreement import Communicator
from bliss.distributed.exchange import Exchange, LocalExchange, ShardExchange
from bliss.distributed.groups import Alone
from bliss.distributed.reduction import VectorReduction
from bliss.distributed.shards import ShardVector, check_processes
from bliss.errors import InputError
from bliss.train import Stepper, build_task
from tests.train.runs import SETTINGS, assert_same_run, make_trainer, settings, stopped, trained

pytestmark = pytest.mark.slow


def stepper(dataset, **changes) -> Stepper:
    plain = {"dropout": 0.0, "lr": 0.01, "batch_size": 20, "steps": 1}
    return Stepper(build_task(settings(**plain | changes), dataset))


def gradient(made: Stepper) -> torch.Tensor:
    return torch.cat([one.grad.reshape(-1) for one in made.task.model.parameters()])


def test_the_gradient_of_a_step_is_the_mean_over_its_shards(dataset):
    whole = stepper(dataset, shards=3)
    (batches,) = list(whole.batches())
    seen, end_shard = [], whole.exchange.end_shard

    def watched(*results):
        seen.append(gradient(whole))
        end_shard(*results)

    whole.exchange.end_shard = watched
    whole.step(batches)
    assert len(seen) == 3
    assert torch.equal(gradient(whole), (seen[0] + seen[1] + seen[2]) / 3)
    assert not torch.equal(seen[0], seen[1])


def test_every_shard_and_step_has_its_own_dropout(dataset):
    seeds = {1: [], 3: []}
    for shards, seen in seeds.items():
        made = stepper(dataset, shards=shards, steps=4)
        made.task.model.register_forward_pre_hook(lambda *_, s=seen: s.append(torch.initial_seed()))
        for batches in made.batches():
            made.step(batches)
    assert len(set(seeds[3])) == 12
    assert seeds[3][::3] == seeds[1]  # the first shard is as a step of one


def test_sampled_sizes_are_means_over_the_batches_of_all_shards(dataset):
    made, seen = stepper(dataset, shards=3, steps=2), []
    for batches in made.batches():
        batches = list(batches)
        seen += [(b.blocks[0].num_src, sum(one.num_edges for one in b.blocks)) for b in batches]
        made.step(batches)
    assert len(seen) == 6
    found = made.mean_sampled()
    assert (found.nodes, found.edges) == pytest.approx(tuple(np.mean(seen, axis=0)))


def test_running_statistics_move_once_a_step_by_the_mean_of_the_shards(dataset):
    made = stepper(dataset, shards=2, normalisation="batch")
    norm, seen = made.task.model.norms[0], []
    norm.register_forward_hook(lambda m, given, out: seen.append(given[0].detach().mean(0)))
    made.step(next(made.batches()))
    wanted = 0.1 * (seen[0] + seen[1]) / 2  # from 0, with momentum 0.1
    assert torch.allclose(norm.running_mean, wanted, atol=1e-6)
    assert int(norm.num_batches_tracked) == 1


def test_a_policy_takes_one_step_of_time_with_any_number_of_shards(dataset):
    made = stepper(dataset, shards=3, steps=2)
    for batches in made.batches():
        made.step(batches)
    assert made.sampler.state_dict()["node.size.steps"].tolist() == [2, 2]
    assert made.sampler.learning.updates == 2


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_run_with_shards_resumes(dataset, tmp_path, whole, prefetch):
    options = {"shards": 3, "batch_size": 20, "prefetch": prefetch, "normalisation": "batch"}
    stopped(make_trainer(dataset, tmp_path, **options), 7, 15)
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))


def test_batches_shrink_where_the_training_nodes_are_few(dataset):
    made = stepper(dataset, shards=7, batch_size=100)
    assert made.loader.batch_size == 120 // 7
    assert len(made.loader) == 1


def test_more_shards_than_training_nodes_are_refused(dataset):
    with pytest.raises(InputError, match="shards=200 exceeds the 120 training nodes: lower"):
        stepper(dataset, shards=200)


@pytest.mark.parametrize("bad", [{"shards": 0}, {"shards": 1.5}, {"reduction": "sum"}])
def test_bad_shards_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        settings(**SETTINGS | bad)


@pytest.mark.parametrize(("shards", "processes", "may"), [(1, 2, "1"), (4, 3, "1, 2 or 4")])
def test_a_number_of_processes_that_does_not_divide_the_shards_is_refused(shards, processes, may):
    words = f"shards={shards} cannot be divided among {processes} processes: start {may} of them"
    with pytest.raises(InputError, match=words):
        check_processes(shards, processes)


NONE, CPU = np.empty(0, np.uint8), torch.device("cpu")


class Backwards:
    """A group of one process whose answer comes in another order: the sum must not depend on it."""

    rank, size = 0, 1

    def all_gather(self, tensor):
        is_packed = tensor.dtype == torch.uint8  # the vectors of four shards as bytes
        return [tensor.view(4, -1).flip(0).view(-1) if is_packed else tensor]


def test_shards_are_added_in_their_order():
    vectors = [torch.tensor([value, 0.0]) for value in (1e8, 1.0, -1e8, 3.0)]
    right, other = (
        VectorReduction(Communicator(group), 4, "exact", 2, CPU)(vectors, NONE).vector[0]
        for group in (Alone(), Backwards())
    )
    assert right == (((torch.tensor(1e8) + 1.0) - 1e8) + 3.0) / 4
    assert right != other  # rounding shows the order


@pytest.mark.parametrize("reduction", ["exact", "allreduce"])
def test_a_reduction_divides_by_the_number_of_shards(reduction):
    vectors = [torch.tensor([value, 1 + value]) for value in (3.0, 5.0, 10.0)]
    reduced = VectorReduction(Communicator(), 3, reduction, 2, CPU)(vectors, NONE)
    assert reduced.vector.tolist() == [6.0, 7.0]
    assert reduced.last == 7.0


def exchanges(model: torch.nn.Module) -> dict[str, Exchange]:
    """Exchanges of one shard in one process."""
    kinds = ("exact", "allreduce")
    shards = {kind: ShardExchange(Communicator(), model, 1, kind, CPU) for kind in kinds}
    return {"local": LocalExchange(), **shards}


def test_a_local_exchange_gives_what_the_exchange_of_one_shard_gives():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    x, news = torch.randn(5, 2), [{"source": np.array([1, 4]), "log_size": np.array([0.5, 0.25])}]
    steps = {}
    for name, exchange in exchanges(model).items():
        model[1].reset_running_stats()
        model.zero_grad()
        exchange.begin_step()
        exchange.begin_shard()
        loss = model(x).square().sum() + model[0].weight.sum()
        loss.backward()
        exchange.end_shard(loss.detach(), news, (7, 11))
        combined = exchange.combine()
        grads = [parameter.grad.tolist() for parameter in model.parameters()]
        statistics = [buffer.tolist() for buffer in model.buffers()]
        ((learnt,),) = combined.news
        values = {key: array.tolist() for key, array in learnt.items()}
        steps[name] = combined.loss, combined.counts, values, grads, statistics
    assert steps["local"] == steps["exact"] == steps["allreduce"]
    assert steps["local"][1] == [7, 11]
    assert steps["local"][2] == {"source": [1, 4], "log_size": [0.5, 0.25]}


@pytest.mark.parametrize("kind", ["local", "exact", "allreduce"])
def test_an_exchange_without_news_has_none(kind):
    exchange = exchanges(torch.nn.Linear(2, 3))[kind]
    exchange.begin_step()
    exchange.begin_shard()
    exchange.end_shard(torch.zeros(()), [], ())
    assert exchange.combine().news == []


def test_a_vector_holds_gradients_statistics_and_loss():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    vector = ShardVector(model)
    model(torch.randn(5, 2)).sum().backward()
    taken = vector.read(torch.tensor(7.0))
    assert taken.shape == (6 + 3 + 3 + 3 + 3 + 3 + 1,)
    assert taken[-1] == 7
    vector.write(2 * taken)
    assert torch.equal(model[0].weight.grad.reshape(-1), 2 * taken[:6])
    assert torch.equal(model[1].running_mean, 2 * taken[15:18])
