"""Where a camera is, and how its lens maps: the pose and intrinsics of its view, per env."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sensorium.cameras.geometry import focal_length, look_at, rotation
from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics, Margins
from sensorium.cameras.options import Camera
from sensorium.cameras.renderer import CameraView
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean
from sensorium.worlds import Envs, World, env_ids, env_index
from sensorium.worlds.compose import pose


class CameraMount:
    """What carries a camera in each env: a link, which it follows, or nothing.

    Args:
        options: of the camera.
        uuid: its name.
        link: full name of the link of the options, or None.
        world: the running engine.

    Attributes:
        view: what the renderer draws: the image, and the margins around it.
        intrinsics: of the image, without margins.
        margins: pixels that are rendered beyond the edges, for a lens that bends them inwards.
        exposure: seconds that the shutter is open.
        rolling_shutter: seconds from the first row to the last.
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
        self._offset, self._turn = (part.float().to(self._device) for part in (torch.tensor(offset), turn))
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
        focal = options.focal_length or focal_length(45.0 if options.fov is None else options.fov, height)
        fx, fy = focal if isinstance(focal, tuple) else (focal, focal)
        cx, cy = options.principal_point or (width / 2, height / 2)
        self.intrinsics = Intrinsics(self._all(fx), self._all(fy), self._all(cx), self._all(cy))
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
            rotation=self._turn.repeat(self._n_envs, 1, 1),
            fx=self.intrinsics.fx,
            fy=self.intrinsics.fy,
            cx=self.intrinsics.cx + left,
            cy=self.intrinsics.cy + top,
            options=options,
        )

    def _all(self, value: float) -> torch.Tensor:
        return torch.full((self._n_envs,), float(value), device=self._device)

    def _bind(self) -> None:
        self._link_pos, self._link_mat = self._world.bind("xpos"), self._world.bind("xmat")

    def follow(self) -> None:
        """Take over the pose of the link, where there is one; the engine's poses must be up to date."""
        if not self._follows:
            return
        view, attached = self.view, self._attached
        turned = self._link_mat[self._envs, self._bodies].reshape(-1, 3, 3)
        position = self._link_pos[self._envs, self._bodies] + turned @ self._offset.to(turned)
        view.position.copy_(torch.where(attached[:, None], position.float(), view.position))
        view.rotation.copy_(torch.where(attached[:, None, None], turned.float() @ self._turn, view.rotation))

    def place(self, pos: Any, quat: Any, lookat: Any, up: Any, envs: Envs) -> None:
        """Put the camera somewhere in the world, off its link; see ``CameraSensor.set_pose``."""
        if quat is not None and lookat is not None:
            raise OptionError("set_pose: give quat or lookat, not both")
        if up is not None and lookat is None:
            raise OptionError("set_pose: up goes with lookat")
        given = env_index(envs, self._n_envs, self._device)
        index = self._envs if given is None else given
        self._world.settle()
        self.follow()
        view, count = self.view, len(index)
        position = view.position[index] if pos is None else self._rows("pos", pos, 3, count)
        if lookat is not None:
            upward = self._rows("up", self._up if up is None else up, 3, count)
            turned = look_at(position, self._rows("lookat", lookat, 3, count), upward)
        elif quat is not None:
            turned = rotation(self._rows("quat", quat, 4, count))
        else:
            turned = view.rotation[index]
        view.position[index], view.rotation[index] = position, turned
        self._attached[index] = False
        self._follows = bool(self._attached.any())

    def attach(self, link: str | None, envs: Envs) -> None:
        """Put the camera on a link, at the pose of its options there; see ``CameraSensor.attach``."""
        body = self._body if link is None else self._find(link)
        if body < 0:
            raise OptionError(f"{self._uuid!r} was made without a link; name one: attach(link=...)")
        given = env_index(envs, self._n_envs, self._device)
        index = self._envs if given is None else given
        self._bind()
        self._attached[index], self._bodies[index] = True, body
        self._follows = True

    def focus(self, fov: Any, focal_length: Any, principal_point: Any, envs: Envs) -> bool:
        """Change the intrinsics; see ``CameraSensor.set_intrinsics``. Returns whether the view has grown, because the
        lens needs wider margins."""
        if fov is not None and focal_length is not None:
            raise OptionError("set_intrinsics: give fov or focal_length, not both")
        given, view = env_index(envs, self._n_envs, self._device), self.view
        index = self._envs if given is None else given
        focal = None
        if fov is not None:
            angle = self._rows("fov", np.asarray(fov, float).reshape(-1, 1), 1, len(index))
            if not bool(((angle > 0) & (angle < 180)).all()):
                raise OptionError(f"fov must lie between 0 and 180 degrees, got {fov!r}")
            focal = (view.options.resolution[1] / (2 * torch.tan(torch.deg2rad(angle) / 2))).expand(-1, 2)
        elif focal_length is not None:
            focal = self._rows("focal_length", focal_length, 2, len(index))
            if not bool((focal > 0).all()):
                raise OptionError(f"focal_length must be greater than 0, got {focal_length!r}")
        point = None if principal_point is None else self._rows("principal_point", principal_point, 2, len(index))
        if focal is not None:
            view.fx[index], view.fy[index] = focal[:, 0], focal[:, 1]
        if point is not None:
            self.intrinsics.cx[index], self.intrinsics.cy[index] = point[:, 0], point[:, 1]
            view.cx[index], view.cy[index] = point[:, 0] + self.margins.left, point[:, 1] + self.margins.top
        view.lens += 1
        return self._widen()

    def _widen(self) -> bool:
        """Grow the view where its margins are too narrow for the lens; they never shrink."""
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
        """Directions in GL axes to the corners of the image, (3,) each, around it; 1 m along the optical axis."""
        fx, fy, cx, cy = (float(value[env]) for value in self.intrinsics)
        width, height = self.view.options.resolution
        around = ((0, 0), (width, 0), (width, height), (0, height))
        return [np.array([(x - cx) / fx, (cy - y) / fy, -1.0]) for x, y in around]

    def ids(self, envs: Envs) -> np.ndarray | None:
        """``envs`` as ids on the host."""
        return env_ids(envs, self._n_envs)

    def _find(self, link: str) -> int:
        model = self._world.model
        names = [model.body(body).name for body in range(model.nbody)]
        matches = [link] if link in names else [name for name in names if name.endswith(f"/{link}")]
        if len(matches) > 1:
            raise NameNotFoundError(f"attach: {link!r} may be {' or '.join(map(repr, matches))}; give the full name")
        if not matches:
            raise NameNotFoundError(f"attach: there is no link named {link!r}{did_you_mean(link, names)}")
        return names.index(matches[0])

    def _rows(self, name: str, values: Any, columns: int, rows: int) -> torch.Tensor:
        """``values``, checked, as (rows, columns)."""
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
