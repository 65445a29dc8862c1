"""``OutputSwitches``: the outputs of a camera, and the methods that switch them on and off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch

from sensorium.cameras.options import OUTPUTS
from sensorium.tree import Buffer, Module


class OutputSwitches(Module):
    """Base class of ``CameraSensor`` with ``enable_rgb_rendering()`` and the like, and one pair of buffers per output.

    Called on a scene or another parent module, these methods reach every camera below it. A camera without outputs is
    not rendered. A timed camera restarts its capture with the current state.
    """

    kind: ClassVar[str]

    def _init_outputs(self, outputs: Iterable[str]) -> None:
        self._outputs: list[str] = []
        for output in outputs:
            self._add_output(output)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs that are enabled now."""
        return tuple(name for name in OUTPUTS if name in self._outputs)

    # -- what the camera defines --------------------------------------------------------------------------------------

    def _get_output(self, output: str, truth: bool) -> torch.Tensor | None:
        """Return the current image of an output; None if the camera is not built."""
        raise NotImplementedError

    def _check_output(self, output: str) -> None:
        """Raise ``OptionError`` if the renderer cannot provide an output."""
        raise NotImplementedError

    def _on_outputs_changed(self) -> None:
        """Allocate images for the outputs that are enabled now."""
        raise NotImplementedError

    # -- switching ----------------------------------------------------------------------------------------------------

    def _switch(self, output: str, on: bool) -> None:
        if on == (output in self._outputs):
            return
        if on:
            self._check_output(output)
            self._add_output(output)
        else:
            self._outputs.remove(output)
            delattr(self, output)
            delattr(self, f"ground_truth_{output}")
        self._on_outputs_changed()

    def _add_output(self, output: str) -> None:
        self._outputs.append(output)
        for name, truth in ((output, False), (f"ground_truth_{output}", True)):
            tags = {self.kind, output} | ({"ground_truth", f"ground_truth_{output}"} if truth else {"measured"})

            def get(output: str = output, truth: bool = truth) -> torch.Tensor | None:
                return self._get_output(output, truth)

            setattr(self, name, Buffer(get=get, tags=tags, derived=True))

    def enable_rgb_rendering(self) -> None:
        """Enable the output "rgb"."""
        self._switch("rgb", True)

    def enable_depth_rendering(self) -> None:
        """Enable the output "depth"."""
        self._switch("depth", True)

    def enable_segmentation_rendering(self) -> None:
        """Enable the output "segmentation"."""
        self._switch("segmentation", True)

    def enable_instance_rendering(self) -> None:
        """Enable the output "instance"."""
        self._switch("instance", True)

    def enable_normals_rendering(self) -> None:
        """Enable the output "normals"."""
        self._switch("normals", True)

    def enable_points_rendering(self) -> None:
        """Enable the output "points"."""
        self._switch("points", True)

    def disable_rgb_rendering(self) -> None:
        """Disable the output "rgb"."""
        self._switch("rgb", False)

    def disable_depth_rendering(self) -> None:
        """Disable the output "depth"."""
        self._switch("depth", False)

    def disable_segmentation_rendering(self) -> None:
        """Disable the output "segmentation"."""
        self._switch("segmentation", False)

    def disable_instance_rendering(self) -> None:
        """Disable the output "instance"."""
        self._switch("instance", False)

    def disable_normals_rendering(self) -> None:
        """Disable the output "normals"."""
        self._switch("normals", False)

    def disable_points_rendering(self) -> None:
        """Disable the output "points"."""
        self._switch("points", False)
