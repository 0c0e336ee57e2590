"""Ray Train without a process group of Ray: the workers make their own. Imports Ray."""

from __future__ import annotations

from ray.train.backend import Backend
from ray.train.torch import TorchConfig


class OwnGroup(Backend):  # type: ignore[misc]
    """Backend that starts nothing: Ray's would make rank 0 listen on all addresses."""

    share_cuda_visible_devices = True


class OwnGroupConfig(TorchConfig):  # type: ignore[misc]
    """Configuration of workers that join their process group themselves."""

    @property
    def backend_cls(self) -> type[Backend]:
        """Class of the backend."""
        return OwnGroup
