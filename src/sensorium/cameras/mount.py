"""``CameraMount``: pose and intrinsics of a camera in each env."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sensorium.cameras.geometry import focal_length as pixels_of_fov
from sensorium.cameras.geometry import look_at, rotation
from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics, Margins
from sensorium.cameras.options import Camera
from sensorium.cameras.renderer import CameraView
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean
from sensorium.worlds import Envs, World, env_index
from sensorium.worlds.compose import pose

Numbers = float | Sequence[float] | Sequence[Sequence[float]] | np.ndarray | torch.Tensor
"""A number, a vector, or one row per env."""


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
        # pose of the camera in the frame of its link
        self._offset, self._rotation = (part.float().to(self._device) for part in (torch.tensor(offset), turn))
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
        focal = options.focal_length or pixels_of_fov(45.0 if options.fov is None else options.fov, height)
        fx, fy = focal if isinstance(focal, tuple) else (focal, focal)
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
            position=self._offset.repeat(self._n_envs, 1),
            rotation=self._rotation.repeat(self._n_envs, 1, 1),
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
        position = self._link_pos[self._envs, self._bodies] + link_rotation @ self._offset.to(link_rotation)
        turned = link_rotation.float() @ self._rotation
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

    def attach(self, link: str | None, envs: Envs) -> None:
        """Attach the camera to a link, at the pose of its options there; see ``CameraSensor.attach``."""
        body = self._body if link is None else self._find_body(link)
        if body < 0:
            raise OptionError(f"attach: camera {self._uuid!r} was added without a link; name one: attach(link=...)")
        index = self._index(envs)
        self._bind()
        self._attached[index], self._bodies[index] = True, body
        self._follows = True

    def set_intrinsics(
        self,
        fov: Numbers | None,
        focal_length: Numbers | None,
        principal_point: Numbers | None,
        envs: Envs,
    ) -> bool:
        """Change the intrinsics; see ``CameraSensor.set_intrinsics``.

        Returns:
            Whether the view has grown, because the lens needs wider overscan margins.
        """
        if fov is not None and focal_length is not None:
            raise OptionError("set_intrinsics: set only one of fov and focal_length")
        index, view = self._index(envs), self.view
        focal = None
        if fov is not None:
            angle = self._check_rows("fov", np.asarray(fov, float).reshape(-1, 1), 1, len(index))
            if not bool(((angle > 0) & (angle < 180)).all()):
                raise OptionError(f"set_intrinsics: fov must lie between 0 and 180 degrees, got {fov!r}")
            focal = (view.options.resolution[1] / (2 * torch.tan(torch.deg2rad(angle) / 2))).expand(-1, 2)
        elif focal_length is not None:
            focal = self._check_rows("focal_length", focal_length, 2, len(index))
            if not bool((focal > 0).all()):
                raise OptionError(f"set_intrinsics: focal_length must be greater than 0, got {focal_length!r}")
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
        matches = [link] if link in names else [name for name in names if name.endswith(f"/{link}")]
        if len(matches) > 1:
            raise NameNotFoundError(
                f"attach: link {link!r} is ambiguous: {' or '.join(map(repr, matches))}; give the full name"
            )
        if not matches:
            raise NameNotFoundError(f"attach: there is no link named {link!r}{did_you_mean(link, names)}")
        return names.index(matches[0])

    def _check_rows(self, name: str, values: Numbers, columns: int, rows: int) -> torch.Tensor:
        """Return ``values`` as a float32 tensor (rows, columns).

        Raises:
            OptionError: they are not finite numbers of shape (columns,) or (rows, columns).
        """
        try:
            tensor = torch.as_tensor(values if isinstance(values, torch.Tensor) else np.asarray(values, float))
        except (TypeError, ValueError) as error:
            raise OptionError(f"{name} must be numbers, got {values!r}") from error
        tensor = tensor.to(device=self._device, dtype=torch.float32)
        if name == "focal_length" and tensor.ndim == 0:  # the same along x and y
            tensor = tensor.expand(columns)
        if tensor.shape not in ((columns,), (1, columns), (rows, columns)):
            raise OptionError(f"{name} must have shape ({columns},) or ({rows}, {columns}), got {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise OptionError(f"{name} must be finite, got {values!r}")
        if name in ("quat", "up") and not bool((tensor.norm(dim=-1) > 1e-9).all()):
            raise OptionError(f"{name} must not be zero, got {values!r}")
        return tensor.expand(rows, columns)
