"""``CameraSensor``: a camera of a scene, which is rendered when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import mujoco
import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.cameras.backend import CameraBackend
from sensorium.cameras.controls import CameraControls
from sensorium.cameras.data import OUTPUT_SHAPES, CameraData
from sensorium.cameras.images import CameraImages
from sensorium.cameras.mount import CameraMount
from sensorium.cameras.options import Camera
from sensorium.cameras.plotting import camera_pictures
from sensorium.cameras.registry import RendererChoice
from sensorium.cameras.render_pass import RenderPass
from sensorium.cameras.renderer import CameraView
from sensorium.cameras.switches import OutputSwitches
from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup
from sensorium.pipeline.describe import size
from sensorium.sensors.base import Sensor
from sensorium.sensors.pictures import Picture
from sensorium.worlds import Changes, Envs, Names, env_ids, env_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TIMING_OPTIONS = ("rate", "delay", "jitter", "dropout", "stuck")
_NO_CHANGES = Changes(1)
"""Stands in for the world's changes while a camera is not built."""


class CameraSensor(OutputSwitches, CameraControls, Sensor[CameraData], options=Camera):
    """A camera of a scene.

    ``step()`` does not render untimed cameras. The first read after a change renders all untimed cameras of the same
    renderer, in all envs whose state has changed, in one pass. Further reads return the stored images.

    A camera is timed if ``rate``, ``delay``, ``jitter``, ``dropout``, ``stuck`` or ``history_length`` is set. Then the
    steps at its sample times render and capture it, and ``read()`` returns captured frames. Between sample times only
    its own ``read_ground_truth()`` renders it.

    Buffers: for each output (such as "rgb") one of that name with the result of ``read()``, and one of the name
    ``ground_truth_<output>``. They are tagged with the output, "camera", and "measured" or "ground_truth". Getting a
    buffer's value renders stale images.

    Attributes:
        view: the camera as the renderer sees it.
    """

    Data: ClassVar[type[CameraData]] = CameraData
    uses_ring_pipeline: ClassVar[bool] = False
    keeps_columns: ClassVar[bool] = False
    capturable: ClassVar[bool] = False

    options: Camera
    view: CameraView

    @checked
    def __init__(self, options: Camera, uuid: str) -> None:
        self._render_pass: RenderPass | None = None
        self._images: CameraImages
        super().__init__(options, uuid)
        del self.measured, self.ground_truth
        self._init_outputs(options.outputs)

    # -- what users call ----------------------------------------------------------------------------------------------

    def read(self, envs: Envs = None, history_length: int | None = None) -> CameraData:
        """Return the images as the robot's software gets them: through lens and imager, delayed, held between captures.

        If images are stale, all untimed cameras of the same renderer are rendered first. The images are the same memory
        in every step, except for windows of a history: copy what must outlast the step. Several threads may read
        between two steps.

        Args:
            envs: which envs, as a copy in that order; None for a view of all.
            history_length: the last N frames, (B, N, ...), newest first; at most the option ``history_length``.

        Raises:
            NotBuiltError: the scene is not built, or is closed.
            OptionError: ``history_length`` exceeds what was allocated.
        """
        if self._measured_version == self._changes.version and envs is None and history_length is None:
            return self._measured_data
        self._update_measured()
        return self._select_images(self._measured_data, envs, history_length, truth=False)

    def read_ground_truth(self, envs: Envs = None, history_length: int | None = None) -> CameraData:
        """Return the images as the renderer draws the current state: not delayed, without lens and imager.

        Arguments and errors are those of :meth:`read`.
        """
        if self._truth_version == self._changes.version and envs is None and history_length is None:
            return self._true_data
        self._update_truth()
        return self._select_images(self._true_data, envs, history_length, truth=True)

    def set(self, envs: Envs = None, **parameters: object) -> None:
        """Change ``rate``, ``delay``, ``jitter``, ``dropout`` or ``stuck`` at run time; see :meth:`Sensor.set`."""
        super().set(envs, **parameters)
        if self._images.snapshots is None and any(value is not None for value in parameters.values()):
            self._start_capture(self._get_pass("set"))

    def plot(self, env: int = 0, path: str | Path | None = None) -> Figure:
        """Plot the images of one env, one row per output: ground truth, measured, and their difference.

        Truth and measured share one colour scale. Of a history, the newest frame is shown.

        Args:
            env: id of the env.
            path: file to save the figure to; None does not save it.
        """
        self._get_pass("plot")
        if not self.outputs:
            raise OptionError(
                f"plot: camera {self.uuid!r} has no outputs to plot; enable one, such as enable_rgb_rendering()"
            )
        return super().plot(env, path)

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        return camera_pictures(self.outputs, measured, truth)

    @property
    def renderer_choice(self) -> RendererChoice:
        """The renderer that draws this camera, and why it was chosen."""
        return self._get_pass("renderer_choice").choice

    @property
    def instance_names(self) -> list[str]:
        """Names of the entities, by their number in "instance"."""
        self._get_pass("instance_names")
        return list(self._images.entities)

    def _memory_per_env(self) -> tuple[int, int, int]:
        width, height = self.options.resolution
        parts = [(int(np.prod(rest)), dtype.itemsize) for rest, dtype in (OUTPUT_SHAPES[name] for name in self.outputs)]
        values, n_bytes = sum(part[0] for part in parts), sum(count * each for count, each in parts)
        # rendered; measured, if that is another image; developed before it is delayed
        copies = 1 + (self.options.profile is not None) + 2 * self.is_timed
        return values * width * height, n_bytes * width * height, copies * n_bytes * width * height

    # -- build --------------------------------------------------------------------------------------------------------

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        link = self.options.link
        self._link = None if link is None else names.body(link, f"Camera(uuid={self.uuid!r}).link").name

    @classmethod
    def _build_group(cls, group: SensorGroup[CameraBackend]) -> CameraBackend:
        # a subclass has a group of its own, and shares the renderers
        groups = [one for one in group.sensors[0]._manager.groups if issubclass(one.cls, CameraSensor)]
        backend = CameraBackend(group.world, group.seed) if group is groups[0] else groups[0].backend
        for camera in group.sensors:
            camera._join(backend.find_pass(camera.options.renderer))
        if group is groups[-1]:
            backend.start()
        for camera in group.sensors:
            if camera.is_timed:
                camera._images.start_capture()
        return backend

    def _join(self, render_pass: RenderPass) -> None:
        """Attach to the render pass of a renderer, and allocate images."""
        world = self.group.world
        self._mount = CameraMount(self.options, self.uuid, self._link, world)
        self.view = self._mount.view
        self._render_pass = render_pass
        render_pass.attach(self)
        self._images = CameraImages(self, self._mount, render_pass, self.group)
        self._readings = self._images.data  # marks the sensor as readable
        self._changes = world.changes

    def _detach(self) -> None:
        super()._detach()
        self._changes, self._measured_version, self._truth_version = _NO_CHANGES, -1, -1
        self._measured_data = self._true_data = CameraData()
        if self._render_pass is not None:
            self._render_pass.close()  # first: if it is interrupted, scene.close() can be called again
            self._render_pass = None
            self.__dict__.pop("_images", None)

    @property
    def is_timed(self) -> bool:
        """Whether frames are captured at sample times: with a rate, delay, drop-outs, sticking or a history."""
        options = self.options
        timed = any(getattr(options, name) for name in _TIMING_OPTIONS)
        return timed or self.max_delay > 0 or options.history_length is not None

    def _get_output(self, output: str, truth: bool) -> torch.Tensor | None:
        if self._render_pass is None:
            return None
        return getattr(self.read_ground_truth() if truth else self.read(), output)

    def _check_output(self, output: str) -> None:
        if self._render_pass is not None:
            self._render_pass.check_output(self.uuid, output)

    def _on_outputs_changed(self) -> None:
        if self._render_pass is not None:
            self._images.allocate()
            self._mark_stale(self._render_pass, None)
            if self._images.snapshots is not None:
                self._start_capture(self._render_pass)

    # -- rendering ----------------------------------------------------------------------------------------------------

    def _update_truth(self) -> None:
        """Render what is stale of this camera and of the untimed cameras of the render pass; update their data."""
        render_pass = self._get_pass("read")
        with render_pass.lock:
            if self._truth_version != self._changes.version:
                for camera in render_pass.update(self):
                    camera._note_rendered()

    def _note_rendered(self) -> None:
        """Update what reads return, after the camera was rendered."""
        self._true_data = self._images.latest_truth()
        if self._images.snapshots is None:
            self._measured_data = self._images.data
            self._measured_version = self._changes.version
        self._truth_version = self._changes.version  # last, because another thread may read it

    def _update_measured(self) -> None:
        """Update what :meth:`read` returns."""
        render_pass = self._get_pass("read")
        with render_pass.lock:
            if self._measured_version == self._changes.version:
                return
            if self._images.snapshots is None:
                self._update_truth()  # updates the measured images too
            else:
                self._images.deliver()
                self._measured_data = self._images.data
                self._measured_version = self._changes.version

    def _select_images(self, images: CameraData, envs: Envs, history_length: int | None, truth: bool) -> CameraData:
        snapshots = self._images.snapshots
        length = 0 if snapshots is None else snapshots.history_length
        if history_length is not None:
            if not isinstance(history_length, Integral) or not 1 <= history_length <= length:
                raise OptionError(
                    f"read(history_length={history_length}) on {self.uuid!r}: history_length must be an integer from 1 "
                    f"to the {length} that were allocated; set the camera's option history_length for more"
                )
            images = self._images.window(int(history_length), truth)
        if envs is None and history_length is None:
            return images
        index = env_index(envs, self.group.n_envs, self.group.device)
        return CameraData(
            *(None if each is None else each.clone() if index is None else each[index] for each in images)
        )

    def _mark_stale(self, render_pass: RenderPass, envs: Envs) -> None:
        """Mark the images of some envs (None: all) as stale."""
        render_pass.mark_stale(self, env_ids(envs, self.group.n_envs))
        self._measured_version = self._truth_version = -1

    def _mark_measured_stale(self) -> None:
        """Make the next :meth:`read` deliver again."""
        self._measured_version = -1

    # -- capture ------------------------------------------------------------------------------------------------------

    def _start_capture(self, render_pass: RenderPass) -> None:
        """Capture frames from now on, beginning with the current state."""
        self._images.start_capture()
        render_pass.restart({self: None})

    @classmethod
    def _update_shared_cache(
        cls, group: SensorGroup[CameraBackend], ground_truth: torch.Tensor, measured: torch.Tensor
    ) -> None:
        group.backend.capture(group)

    @classmethod
    def _reset_group(cls, group: SensorGroup[CameraBackend], mask: torch.Tensor) -> None:
        group.backend.reset(group, mask)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _get_pass(self, call: str) -> RenderPass:
        """Return the render pass; raises ``NotBuiltError`` if there is none."""
        return self._render_pass or self._unbuilt(call)

    def _get_mount(self, call: str) -> CameraMount:
        self._get_pass(call)
        return self._mount

    def _current_view(self, call: str) -> CameraView:
        mount = self._get_mount(call)
        self.group.world.settle()
        mount.follow()
        return mount.view

    def _report_change(self, method: str, **arguments: object) -> None:
        assert self._manager is not None
        self._manager.on_change(self.uuid, method, arguments)

    def _describe(self) -> dict[str, str]:
        if self._render_pass is None:
            return {}
        images = self._images
        dtypes = dict.fromkeys(str(image.dtype).removeprefix("torch.") for image in images.measured.values())
        renders = f", {images.n_sub_frames} renders per image in motion" if images.n_sub_frames > 1 else ""
        return {
            "shape": " ".join(f"{name} {tuple(image.shape)}" for name, image in images.measured.items()),
            "dtype": " ".join(dtypes),
            "memory": size(images.n_bytes),
            "runs": f"on {'read' if images.snapshots is None else 'capture'}, {self._render_pass.choice}{renders}",
        }
