"""Base classes of the sensors of touch and proximity: points on a link that find the nearest surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from sensorium.errors import OptionError
from sensorium.sensors.base import DataT, SimpleSensor
from sensorium.sensors.options import Mounted
from sensorium.sensors.pictures import MIN_PICTURE, Picture
from sensorium.sensors.touch.probe_layout import Probes, tracked_geoms
from sensorium.sensors.touch.skin_pictures import skin_picture
from sensorium.worlds import Names, Painter
from sensorium.worlds.compose import pose

Point = tuple[float, float, float]


class Probing(Mounted):
    """Options that all sensors of touch and proximity share: a frame on a link, and the links that they find."""

    tracked: str | tuple[str, ...] = ()
    """Links that the probes find, each without its child links. Default: all links except for the kinematic tree (the
    robot) of the sensor's own link. Probes never find geoms that do not collide."""


class ProbeSensor(SimpleSensor[DataT]):
    """Base of the sensors that are made of probes."""

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        options, asked_by = self.options, f"{type(self.options).__name__}(uuid={self.uuid!r})"
        self._link = names.body(options.link, f"{asked_by}.link").name
        tracked = (options.tracked,) if isinstance(options.tracked, str) else options.tracked
        self._tracked = tuple(names.body(name, f"{asked_by}.tracked").name for name in tracked)
        if self._link in self._tracked:
            raise OptionError(f"{asked_by}.tracked must not name the link that carries the sensor, got {self._link!r}")

    def _local(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return positions (n, 3), normals (n, 3) or None, and reach (n,) of the probes, in the sensor's frame."""
        raise TypeError(f"{type(self).__name__} must define _local")

    def _rigid_depth(self) -> float | None:
        """Return the distance from the probes back to the rigid surface, m; None for depths to the nearest surface."""
        return None

    def _frame(self) -> tuple[np.ndarray, np.ndarray]:
        """Return position (3,) and rotation matrix (3, 3) of the sensor's frame in the link's."""
        position, quaternion = pose(self.options.pos, self.options.quat, self.options.euler)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quaternion)
        return position, matrix.reshape(3, 3)

    def _probes(self, model: mujoco.MjModel) -> Probes:
        link = int(model.body(self._link).id)
        own = model.body_rootid[link]
        if self._tracked:
            tracked = [int(model.body(name).id) for name in self._tracked]
        else:
            tracked = [body for body in range(model.nbody) if model.body_rootid[body] != own]
        if not tracked_geoms(model, tracked):
            what = ", ".join(map(repr, self._tracked)) or "anything but the sensor's own robot"
            raise OptionError(
                f"{type(self.options).__name__}(uuid={self.uuid!r}).tracked: there is no geom that collides on {what}; "
                "name links with geoms that collide"
            )
        positions, normals, reach = self._local()
        origin, rotation = self._frame()
        return Probes(
            link,
            origin + positions @ rotation.T,
            None if normals is None else normals @ rotation.T,
            reach,
            self._rigid_depth(),
            tracked,
        )

    def _plotted_names(self, field: str) -> Sequence[str]:
        count = len(self._local()[0])
        return [f"probe {i}" for i in range(count)] if field != "points" else ()

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        """Return the readings of many probes at their places; few probes are better shown as lines."""
        positions = self._local()[0]
        if len(positions) < MIN_PICTURE:
            return ()
        return [
            skin_picture(
                "reading" if name == "value" else name, self._plotted_unit(name), positions, values, truth[name]
            )
            for name, values in measured.items()
            if name != "points"
        ]

    def _draw(self, painter: Painter, env: int) -> None:
        """Draw the probes as balls of their reach, and their normals."""
        world = self.group.world
        probes = self._probes(world.model)
        origin, rotation = (world.bind(name)[env, probes.link].double().numpy(force=True) for name in ("xpos", "xmat"))
        positions = origin + probes.positions @ rotation.reshape(3, 3).T
        for position, reach in zip(positions, probes.reach, strict=True):
            painter.points(position, (0.2, 0.9, 0.4, 0.6), min(max(float(reach), 0.002), 0.02))
        if probes.normals is not None:
            for position, normal in zip(positions, probes.normals @ rotation.reshape(3, 3).T, strict=True):
                painter.line(position, position + 0.02 * normal, (0.2, 0.9, 0.4, 0.8), 0.001)


def per_probe(values: npt.ArrayLike, count: int, width: int) -> np.ndarray:
    """Return one row for all probes, or one row each, as (count, width)."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.float64).reshape(-1, width), (count, width)))


def unit(normals: np.ndarray) -> np.ndarray:
    """Return rows divided by their lengths."""
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def check_count(name: str, values: Sequence[object], count: int) -> None:
    """Raise a ValueError unless there is one value per probe."""
    if len(values) != count:
        raise ValueError(f"{name} must be one value for all or one for each of the {count} probes, got {len(values)}")


def check_normals(normals: Point | tuple[Point, ...], count: int) -> None:
    """Raise a ValueError unless these can be the normals of ``count`` probes."""
    rows = np.asarray(normals, np.float64)
    if rows.ndim == 2:
        check_count("normals", normals, count)
    if (np.linalg.norm(rows.reshape(-1, 3), axis=1) < 1e-9).any():
        raise ValueError("normals must not be zero vectors")
