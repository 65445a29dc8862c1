"""Switching the outputs of cameras on and off, one by one or from the top of the tree."""

from __future__ import annotations

from sensorium.tree import Module


class OutputSwitches(Module):
    """``enable_rgb_rendering()`` and its kin. Called on a scene, they reach every camera of it.

    A camera without outputs is not rendered. One with a shutter begins anew with the image of now.
    """

    def _switch(self, output: str, on: bool) -> None:
        raise NotImplementedError

    def enable_rgb_rendering(self) -> None:
        """Render colour from now on."""
        self._switch("rgb", True)

    def enable_depth_rendering(self) -> None:
        """Render depth from now on."""
        self._switch("depth", True)

    def enable_segmentation_rendering(self) -> None:
        """Render body and geom ids from now on."""
        self._switch("segmentation", True)

    def enable_instance_rendering(self) -> None:
        """Render entities from now on."""
        self._switch("instance", True)

    def enable_normals_rendering(self) -> None:
        """Render normals from now on."""
        self._switch("normals", True)

    def enable_points_rendering(self) -> None:
        """Render points from now on."""
        self._switch("points", True)

    def disable_rgb_rendering(self) -> None:
        """Render colour no more."""
        self._switch("rgb", False)

    def disable_depth_rendering(self) -> None:
        """Render depth no more."""
        self._switch("depth", False)

    def disable_segmentation_rendering(self) -> None:
        """Render body and geom ids no more."""
        self._switch("segmentation", False)

    def disable_instance_rendering(self) -> None:
        """Render entities no more."""
        self._switch("instance", False)

    def disable_normals_rendering(self) -> None:
        """Render normals no more."""
        self._switch("normals", False)

    def disable_points_rendering(self) -> None:
        """Render points no more."""
        self._switch("points", False)
