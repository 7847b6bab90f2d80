"""The objective on one process or on many, by PyTorch's own engines: DistributedDataParallel (DDP; Li et al. 2020)
where every rank holds all weights, and fully_shard (FSDP2; Zhao et al. 2023) where a group of ranks divides weights,
gradients and moments among its members.

Both take the mean over ranks by themselves. Here each loss is divided by the tokens of the whole update, so that the
sum over ranks is the gradient, whatever each of them has.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # the name that DDP wants in an annotation
from torch.distributed.distributed_c10d import all_reduce
from torch.nn.parallel import DistributedDataParallel

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch
from pellucid.errors import ConfigError
from pellucid.model.decoder import DecoderLayer
from pellucid.model.encoder import EncoderLayer
from pellucid.train.objective import Model, training_loss
from pellucid.train.world import World

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


class Objective(nn.Module):
    """What an update goes down by, as a module: the engines act where its `forward` begins and ends."""

    def __init__(self, model: Model, config: TrainConfig) -> None:
        super().__init__()
        self.model = model
        self.config = config

    def forward(self, batch: Batch, step: int, words: int | None = None) -> Tensor:
        """The summed loss of a batch in this update, see `training_loss`."""
        return training_loss(self.model, batch, self.config, step, words)


def check_world(world: World, config: TrainConfig) -> None:
    """Refuses what so many ranks cannot share out.

    Raises:
        ConfigError: which key, and what would do.
    """
    if world.size % config.shard:
        would = [str(n) for n in range(1, world.size + 1) if world.size % n == 0]
        raise ConfigError(f"train.shard {config.shard} does not divide {world.size} rank{'s' * (world.size > 1)}",
                          where="train.shard",
                          why="" if world.size > 1 else "weights are divided among the ranks that torchrun starts",
                          fix=f"--train.shard {' or '.join(would)}" + ", or start it with torchrun" * (world.size == 1))
    if config.accumulate % world.size:
        below = config.accumulate // world.size * world.size
        would = [str(n) for n in (below, below + world.size) if n]
        raise ConfigError(f"{config.accumulate} micro-batches an update cannot be shared out among {world.size} ranks",
                          where="train.accumulate", why="each rank has as many as the others",
                          fix=f"train.accumulate {' or '.join(would)}, with train.batch_tokens changed to match")
    if world.size > 1 and (config.workers or 1) > 1:
        raise ConfigError("ranks have no workers", where="train.workers",
                          fix="leave it out, and start a rank for each core: torchrun --nproc-per-node")


def parallelize(objective: Objective, world: World, shard: int) -> nn.Module:
    """The objective as its ranks compute it: with DDP, or with weights divided among `shard` of them."""
    if world.size == 1:
        return objective
    if shard == 1:
        parallel = DistributedDataParallel(objective, gradient_as_bucket_view=True)
        parallel.register_comm_hook(None, _sum)
        return parallel
    return _sharded(objective, world, shard)


def _sum(_: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """In place of DDP's mean."""
    done: torch.futures.Future[list[Tensor]] = all_reduce(bucket.buffer(), async_op=True).get_future()
    return done.then(lambda found: found.value()[0])


def _sharded(objective: Objective, world: World, shard: int) -> nn.Module:
    """Each layer is a group, which is whole only while it computes; what remains, the embeddings and the output among
    it, is one more, which stays whole until its gradients are there: a matrix that is tied is used at both ends."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    replicas = world.size // shard
    mesh = init_device_mesh(world.device.type, (replicas, shard), mesh_dim_names=("replicate", "shard"))
    mesh = mesh["shard"] if replicas == 1 else mesh
    for module in objective.modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            fully_shard(module, mesh=mesh)
    fully_shard(objective, mesh=mesh, reshard_after_forward=False)
    groups = _sharded_modules(objective)
    for place, group in enumerate(groups):
        group.set_force_sum_reduction_for_comms(True)  # a mean of gloo's has been wrong (pytorch 162338)
        group.set_gradient_divide_factor(1.0)
        group.set_modules_to_backward_prefetch([groups[place - 1]])  # else by forwards, which validation adds to
    return objective


@contextlib.contextmanager
def exchanging(objective: nn.Module, is_last: bool) -> Iterator[None]:
    """Forward and backward of a micro-batch; gradients go to the other ranks with the last one of an update alone."""
    if isinstance(objective, DistributedDataParallel):
        with contextlib.nullcontext() if is_last else objective.no_sync():
            yield
        return
    if _is_divided(objective):
        objective.set_requires_gradient_sync(is_last)
    yield


@contextlib.contextmanager
def unsharded(objective: nn.Module) -> Iterator[None]:
    """The weights whole and plain on every rank while this lasts, for whatever is not the objective's `forward`."""
    divided = _sharded_modules(objective)
    for module in divided:
        module.set_reshard_after_forward(False, recurse=False)  # ranks may have different numbers of batches
        module.unshard()
    try:
        yield
    finally:
        for place, module in enumerate(divided):
            module.set_reshard_after_forward(place > 0, recurse=False)
            module.reshard()


def _sharded_modules(objective: nn.Module) -> list["FSDPModule"]:
    """The groups of weights that ranks divide, the objective itself first."""
    return [module for module in objective.modules() if _is_divided(module)]


def _is_divided(module: nn.Module) -> "TypeGuard[FSDPModule]":
    """Whether it is such a group."""
    return hasattr(module, "unshard")
