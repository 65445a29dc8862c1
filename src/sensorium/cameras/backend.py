"""``CameraBackend``: the state that all cameras of a scene share, one render pass per renderer."""

from __future__ import annotations

import torch

from sensorium.cameras.render_pass import EnvMasks, RenderPass
from sensorium.pipeline import SensorGroup
from sensorium.worlds import World


class CameraBackend:
    """Render passes of all cameras of a scene; ``group.backend`` of the class ``CameraSensor`` and of its subclasses.

    Args:
        world: the running engine.
        seed: seed of the scene.

    Attributes:
        passes: one render pass per renderer.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.passes: list[RenderPass] = []
        self._world, self._seed = world, seed
        self._by_option: dict[str, RenderPass] = {}

    def find_pass(self, renderer: str) -> RenderPass:
        """Return the render pass for the option ``renderer``, and create it at first use."""
        if renderer not in self._by_option:
            created = RenderPass(renderer, self._world, self._seed)
            # "auto" and a name can mean the same renderer
            same = next((one for one in self.passes if one.choice.name == created.choice.name), None)
            if same is None:
                self.passes.append(created)
            self._by_option[renderer] = created if same is None else same
        return self._by_option[renderer]

    def start(self) -> None:
        """Start all renderers; all cameras have been attached."""
        for render_pass in self.passes:
            render_pass.start()

    def capture(self, group: SensorGroup[CameraBackend]) -> None:
        """Render and capture the timed cameras of a group that are due in this step."""
        for render_pass in self.passes:
            wanted: EnvMasks = {}
            cameras = [camera for camera in render_pass.cameras if camera.group is group]
            for camera in cameras:
                images = camera._images
                images.record_motion()
                if images.snapshots is not None and (mask := images.due_envs()) is not None:
                    wanted[camera] = mask
            if wanted:
                render_pass.render(wanted)
            for camera in cameras:
                if camera._images.snapshots is not None:
                    camera._images.capture()

    def reset(self, group: SensorGroup[CameraBackend], mask: torch.Tensor) -> None:
        """Restart everything in a group that depends on earlier states, in the envs of ``mask`` (B,)."""
        if not any(camera._images.depends_on_past for camera in group.sensors):
            return  # before the mask is read, which would wait for the device
        envs = mask.numpy(force=True)
        for camera in group.sensors:
            camera._images.forget_motion(envs)
        for render_pass in self.passes:
            cameras = [camera for camera in render_pass.cameras if camera.group is group]
            timed: EnvMasks = {camera: envs for camera in cameras if camera._images.snapshots is not None}
            if timed:
                render_pass.restart(timed)
