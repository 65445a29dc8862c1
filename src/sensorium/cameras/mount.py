"""``CameraMount``: pose and intrinsics of a camera in each env."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.cameras.arguments import Numbers, Offset, focal_rows, offset_rows, per_env_rows
from sensorium.cameras.geometry import camera_to_world, look_at, rotation
from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics, Margins
from sensorium.cameras.options import Camera
from sensorium.cameras.renderer import CameraView
from sensorium.errors import OptionError
from sensorium.worlds import Envs, World, env_index
from sensorium.worlds.compose import pose
from sensorium.worlds.names import resolve_name


class CameraMount:
    """Pose and intrinsics of one camera: it follows a link, or is fixed in the world, separately in each env.

    Args:
        options: options of the camera.
        uuid: name of the camera.
        link: full name of the link in the options, or None.
        world: the running engine.

    Attributes:
        view: what the renderer draws: the image and the overscan margins around it.
        intrinsics: intrinsics of the image, without overscan margins.
        margins: overscan margins, pixels that are rendered beyond the edges because the lens bends them into the image.
        exposure: exposure time, s.
        rolling_shutter: time from the first row to the last, s.
    """

    def __init__(self, options: Camera, uuid: str, link: str | None, world: World) -> None:
        self._world, self._up, self._uuid = world, options.up, uuid
        self._n_envs, self._device = world.n_envs, world.device
        offset, quat = pose(options.pos, options.quat, options.euler)
        if options.lookat is None:
            turn = rotation(torch.tensor(quat))
        else:
            target, up = (torch.tensor(each, dtype=torch.float64) for each in (options.lookat, options.up))
            turn = look_at(torch.tensor(offset), target, up)
        # position and rotation in the frame of the link: of the options, and in each env once attach() has set another
        self._own_pose = (torch.tensor(offset).float().to(self._device), turn.float().to(self._device))
        self._poses: tuple[torch.Tensor, torch.Tensor] | None = None
        self._body = -1 if link is None else int(world.model.body(link).id)
        self._bodies = torch.full((self._n_envs,), max(self._body, 0), device=self._device)
        self._attached = torch.full((self._n_envs,), self._body >= 0, device=self._device)
        self._follows = self._body >= 0
        self._envs = torch.arange(self._n_envs, device=self._device)
        if self._follows:
            self._bind()
        profile = options.profile
        exposure, rolling = options.exposure, options.rolling_shutter
        if exposure is None:
            exposure = 0.0 if profile is None or profile.motion_blur == 1 else profile.exposure_time
        if rolling is None:
            rolling = 0.0 if profile is None else profile.rolling_shutter
        self.exposure, self.rolling_shutter = exposure, rolling
        self.view = self._make_view(options, uuid)

    def _make_view(self, options: Camera, uuid: str) -> CameraView:
        width, height = options.resolution
        fx, fy = options.focal_lengths()
        cx, cy = options.principal_point or (width / 2, height / 2)
        self.intrinsics = Intrinsics(self._per_env(fx), self._per_env(fy), self._per_env(cx), self._per_env(cy))
        profile = options.profile
        self.margins: Margins = NO_MARGINS if profile is None else profile.overscan(self.intrinsics, (width, height))
        left, top, right, bottom = self.margins
        return CameraView(
            uuid=uuid,
            width=width + left + right,
            height=height + top + bottom,
            near=options.near,
            far=options.far,
            position=self._own_pose[0].repeat(self._n_envs, 1),
            rotation=self._own_pose[1].repeat(self._n_envs, 1, 1),
            fx=self.intrinsics.fx,
            fy=self.intrinsics.fy,
            cx=self.intrinsics.cx + left,
            cy=self.intrinsics.cy + top,
            options=options,
        )

    def _per_env(self, value: float) -> torch.Tensor:
        return torch.full((self._n_envs,), float(value), device=self._device)

    def _bind(self) -> None:
        self._link_pos, self._link_mat = self._world.bind("xpos"), self._world.bind("xmat")

    def follow(self) -> None:
        """Update the view's pose from the link, in envs where it is attached; the engine's poses must be current."""
        if not self._follows:
            return
        view, attached = self.view, self._attached
        link_rotation = self._link_mat[self._envs, self._bodies].reshape(-1, 3, 3)
        if self._poses is None:  # faster than with one pose per env
            offset, turn = self._own_pose
            moved = link_rotation @ offset.to(link_rotation)
        else:
            offset, turn = self._poses
            moved = (link_rotation @ offset.to(link_rotation).unsqueeze(2)).squeeze(2)
        position = self._link_pos[self._envs, self._bodies] + moved
        turned = link_rotation.float() @ turn
        view.position.copy_(torch.where(attached[:, None], position.float(), view.position))
        view.rotation.copy_(torch.where(attached[:, None, None], turned, view.rotation))

    def set_pose(
        self, pos: Numbers | None, quat: Numbers | None, lookat: Numbers | None, up: Numbers | None, envs: Envs
    ) -> None:
        """Detach the camera from its link and set its pose in the world; see ``CameraSensor.set_pose``."""
        if quat is not None and lookat is not None:
            raise OptionError("set_pose: set only one of quat and lookat")
        if up is not None and lookat is None:
            raise OptionError("set_pose: up needs lookat")
        index = self._index(envs)
        self._world.settle()
        self.follow()
        view, count = self.view, len(index)
        position = view.position[index] if pos is None else self._check_rows("pos", pos, 3, count)
        if lookat is not None:
            upward = self._check_rows("up", self._up if up is None else up, 3, count)
            turned = look_at(position, self._check_rows("lookat", lookat, 3, count), upward)
        elif quat is not None:
            turned = rotation(self._check_rows("quat", quat, 4, count))
        else:
            turned = view.rotation[index]
        view.position[index], view.rotation[index] = position, turned
        self._attached[index] = False
        self._follows = bool(self._attached.any())

    def attach(self, link: str | None, offset: Offset | None, envs: Envs) -> None:
        """Attach the camera to a link, at an offset in its frame; see ``CameraSensor.attach``."""
        body = self._body if link is None else self._find_body(link)
        if body < 0:
            raise OptionError(
                f"attach: link must be set, since camera {self._uuid!r} was added without a link: attach(link=...)"
            )
        index = self._index(envs)
        position, turn = self._own_pose if offset is None else offset_rows(offset, len(index), self._device)
        self._bind()
        if offset is not None and self._poses is None:
            self._poses = (self._own_pose[0].repeat(self._n_envs, 1), self._own_pose[1].repeat(self._n_envs, 1, 1))
        if self._poses is not None:
            self._poses[0][index], self._poses[1][index] = position, turn
        self._attached[index], self._bodies[index] = True, body
        self._follows = True

    def detach(self, envs: Envs) -> None:
        """Detach the camera from its link; see ``CameraSensor.detach``."""
        index = self._index(envs)
        self._world.settle()
        self.follow()
        self._attached[index] = False
        self._follows = bool(self._attached.any())

    def pose_in_world(self, envs: Envs) -> torch.Tensor:
        """Return camera to world in GL axes as of the last :meth:`follow`, (n, 4, 4)."""
        index = self._index(envs)
        return camera_to_world(self.view.position[index], self.view.rotation[index])

    def set_intrinsics(
        self,
        angles: dict[str, Numbers | None],
        focal_length: Numbers | None,
        principal_point: Numbers | None,
        envs: Envs,
    ) -> bool:
        """Change the intrinsics; see ``CameraSensor.set_intrinsics``.

        Args:
            angles: "fov", "hfov" and "vfov".
            focal_length: focal length in pixels.
            principal_point: pixels from the top left corner.
            envs: which envs; None for all.

        Returns:
            Whether the view has grown, because the lens needs wider overscan margins.
        """
        index, view = self._index(envs), self.view
        focal = focal_rows(angles, focal_length, view.options.resolution, len(index), self._device)
        point = None if principal_point is None else self._check_rows("principal_point", principal_point, 2, len(index))
        if focal is not None:
            view.fx[index], view.fy[index] = focal[:, 0], focal[:, 1]
        if point is not None:
            self.intrinsics.cx[index], self.intrinsics.cy[index] = point[:, 0], point[:, 1]
            view.cx[index], view.cy[index] = point[:, 0] + self.margins.left, point[:, 1] + self.margins.top
        view.lens_version += 1
        return self._widen_margins()

    def _widen_margins(self) -> bool:
        """Grow the view if its overscan margins are too narrow for the lens; they never shrink."""
        profile, view = self.view.options.profile, self.view
        if profile is None or not profile.distorts:
            return False
        needed = profile.overscan(self.intrinsics, view.options.resolution)
        margins = Margins(*(max(pair) for pair in zip(self.margins, needed, strict=True)))
        if margins == self.margins:
            return False
        self.margins = margins
        view.width, view.height = (
            side + sum(edges)
            for side, edges in zip(view.options.resolution, (margins[::2], margins[1::2]), strict=True)
        )
        view.cx.copy_(self.intrinsics.cx + margins.left)
        view.cy.copy_(self.intrinsics.cy + margins.top)
        return True

    def corners(self, env: int) -> list[np.ndarray]:
        """Return the directions to the four image corners, (3,) each, in GL axes, 1 m along the optical axis."""
        fx, fy, cx, cy = (float(value[env]) for value in self.intrinsics)
        width, height = self.view.options.resolution
        around = ((0, 0), (width, 0), (width, height), (0, height))
        return [np.array([(x - cx) / fx, (cy - y) / fy, -1.0]) for x, y in around]

    def _index(self, envs: Envs) -> torch.Tensor:
        index = env_index(envs, self._n_envs, self._device)
        return self._envs if index is None else index

    def _find_body(self, link: str) -> int:
        model = self._world.model
        names = [model.body(body).name for body in range(model.nbody)]
        return names.index(resolve_name(link, names, "link", "attach"))

    def _check_rows(self, name: str, values: Numbers, columns: int, rows: int) -> torch.Tensor:
        return per_env_rows(name, values, columns, rows, self._device)
