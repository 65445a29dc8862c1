"""``CameraControls``: methods that change the pose and the intrinsics of a camera while the scene runs."""

from __future__ import annotations

from sensorium.cameras.arguments import Numbers, Offset
from sensorium.cameras.images import CameraImages
from sensorium.cameras.mount import CameraMount
from sensorium.cameras.properties import CameraProperties
from sensorium.cameras.render_pass import RenderPass
from sensorium.cameras.renderer import CameraView
from sensorium.worlds import Envs


class CameraControls(CameraProperties):
    """Base class of ``CameraSensor`` with ``set_pose``, ``attach``, ``detach`` and ``set_intrinsics``.

    The next read of an untimed camera shows a change. ``read()`` of a timed camera returns captured frames, so it shows
    the change from the next capture on. A recording repeats all changes.
    """

    view: CameraView
    _mount: CameraMount
    _images: CameraImages

    # -- what the camera defines --------------------------------------------------------------------------------------

    def _get_pass(self, call: str) -> RenderPass:
        """Return the render pass; ``call`` is the name that the error shows if the camera is not built."""
        raise NotImplementedError

    def _mark_stale(self, render_pass: RenderPass, envs: Envs) -> None:
        """Mark the images of some envs (None: all) as stale."""
        raise NotImplementedError

    def _start_capture(self, render_pass: RenderPass) -> None:
        """Capture frames from now on, beginning with the current state."""
        raise NotImplementedError

    def _report_change(self, method: str, **arguments: object) -> None:
        """Report a change, for recordings."""
        raise NotImplementedError

    # -- what users call ----------------------------------------------------------------------------------------------

    def set_pose(
        self,
        pos: Numbers | None = None,
        quat: Numbers | None = None,
        lookat: Numbers | None = None,
        envs: Envs = None,
        up: Numbers | None = None,
    ) -> None:
        """Set the pose of the camera in the world, and detach it from its link, in some envs.

        The next read of an untimed camera shows the change. ``read()`` of a timed camera returns captured frames, so it
        shows the change from the next capture on.

        Args:
            pos: position in the world, m, (3,), or one row per env (n, 3); None keeps the position.
            quat: orientation (w, x, y, z) in GL axes, (4,) or (n, 4).
            lookat: point in the world to look at, m, (3,) or (n, 3), instead of ``quat``. Without either, the
                orientation stays.
            envs: which envs; None for all.
            up: with ``lookat``: direction that points up in the image, (3,) or (n, 3). Default: the option ``up``.

        Raises:
            NotBuiltError: the scene is not built.
            OptionError: a value has the wrong shape, or ``quat`` and ``lookat`` are both set.

        Example:
            >>> camera.set_pose(pos=(1, 0, 1), lookat=(0, 0, 0.3), envs=[0, 1])
        """
        render_pass = self._get_pass("set_pose")
        self._mount.set_pose(pos, quat, lookat, up, envs)
        if pos is None or (quat is None and lookat is None):
            self._report_pose(envs)  # it depends on the pose that the camera had
        else:
            self._report_change("set_pose", pos=pos, quat=quat, lookat=lookat, envs=envs, up=up)
        self._mark_stale(render_pass, envs)

    update_camera_pose = set_pose

    def attach(self, link: str | None = None, offset: Offset | None = None, envs: Envs = None) -> None:
        """Attach the camera to a link, so that it follows the link, in some envs.

        Args:
            link: name of the link; default: the link of the options.
            offset: pose of the camera in the link's frame, in GL axes like ``quat`` and ``cam2world_gl``: a homogeneous
                transform (4, 4), or a pose (7,) of position in m and quaternion (w, x, y, z); or one per env, (n, 4, 4)
                or (n, 7). Default: the pose of the options.
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            NameNotFoundError: there is no link of that name, or it is ambiguous.
            OptionError: ``link`` is None and the options have no link, or ``offset`` is not a rigid transform or pose.

        Example:
            >>> camera.attach("hand", offset=(0.05, 0, 0.2, 1, 0, 0, 0), envs=[0])
        """
        render_pass = self._get_pass("attach")
        self._mount.attach(link, offset, envs)
        self._report_change("attach", link=link, offset=offset, envs=envs)
        self._mark_stale(render_pass, envs)

    def detach(self, envs: Envs = None) -> None:
        """Detach the camera from its link in some envs. It stays where it is in the world.

        Args:
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            OptionError: ``envs`` is out of range.
        """
        render_pass = self._get_pass("detach")
        self._mount.detach(envs)
        self._report_pose(envs)
        self._mark_stale(render_pass, envs)

    def set_intrinsics(
        self,
        fov: Numbers | None = None,
        focal_length: Numbers | None = None,
        principal_point: Numbers | None = None,
        envs: Envs = None,
        *,
        hfov: Numbers | None = None,
        vfov: Numbers | None = None,
    ) -> None:
        """Change the intrinsics of the camera in some envs.

        If the lens then needs wider overscan margins than were allocated, the images are allocated again and the
        renderer is restarted. To avoid repeated restarts, set the widest field of view first.

        Args:
            fov: the same as ``vfov``.
            focal_length: focal length in pixels, instead of angles: a number, (fx, fy), or (n, 2).
            principal_point: pixels from the top left corner, (2,) or (n, 2).
            envs: which envs; None for all.
            hfov: horizontal field of view in degrees, a number or one per env (n,); pixels are square.
            vfov: vertical field of view in degrees, likewise. Both may be set if they fit the aspect ratio within 5%.

        Raises:
            NotBuiltError: the scene is not built.
            OptionError: a value is out of range, or values contradict each other.
        """
        render_pass = self._get_pass("set_intrinsics")
        angles = {"fov": fov, "hfov": hfov, "vfov": vfov}
        with render_pass.lock:
            if self._mount.set_intrinsics(angles, focal_length, principal_point, envs):
                self.view.caches, self._images.rendered = {}, {}
                self._images.allocate()
                render_pass.rebuild()
                self._mark_stale(render_pass, None)
                if self._images.snapshots is not None:
                    self._start_capture(render_pass)
            else:
                self._mark_stale(render_pass, envs)
        arguments = {**angles, "focal_length": focal_length, "principal_point": principal_point}
        given = {name: value for name, value in arguments.items() if value is not None}
        self._report_change("set_intrinsics", **given, envs=envs)

    def _report_pose(self, envs: Envs) -> None:
        """Report the current pose in the world, for a recording in which the camera may have another pose before."""
        self._report_change("attach", link="world", offset=self._mount.pose_in_world(envs), envs=envs)
