"""Options of the cluster buffer."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from sensorium.options import Options


class ClusterOptions(Options):
    """Options of a :class:`VectorizedClusterBuffer`. As the ``memory`` of an entity or a training, they choose it."""

    capacity: int = Field(ge=1)
    """Transitions to hold. Each cluster holds ``capacity // clusters``."""
    clusters: int = Field(default=16, ge=1)
    """Number of clusters. 1 is the uniform mode: one ring, and nothing is fitted."""
    components: int = Field(default=8, ge=1)
    """Principal components of the observations in which the clusters are fitted, at most the observations' size."""
    warmup: int = Field(default=10_000, ge=1)
    """Transitions before the clusters are fitted, at most ``capacity``."""
    balance: float = Field(default=0.5, ge=0.0, le=1.0)
    """How batches are drawn: 0 is uniform over transitions, 1 uniform over clusters, between them a mixture."""
    keys: tuple[str, ...] | None = None
    """Observations that are clustered: "imu.ang_vel", or "imu" for all parts of a reading. Default: all float32 ones.
    Images that are named here count by their pixels."""

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.capacity < self.clusters:
            raise ValueError(f"capacity must be >= clusters, which is {self.clusters}; got {self.capacity}")
        if self.clusters > 1 and not self.clusters <= self.warmup <= self.capacity:
            raise ValueError(
                f"warmup must be between clusters ({self.clusters}) and capacity ({self.capacity}), got {self.warmup}"
            )
        return self
