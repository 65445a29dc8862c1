"""Lidars whose distances an episode holds: where their rays ended, in a scene without the sensors."""

from __future__ import annotations

import mujoco
import numpy as np

from sensorium.datasets import Episode
from sensorium.errors import SensoriumError
from sensorium.robots.rig import sensor_type
from sensorium.sensors.rays.ray_layout import ALIGNMENTS, mounting_turn
from sensorium.sensors.rays.raycaster import Raycaster
from sensorium.worlds import World
from sensorium.worlds.compose import pose
from sensorium.worlds.names import resolve_name


class StoredLidar:
    """A lidar that an episode describes, with a pattern that does not change.

    Args:
        options: its options.
        body: id of its link.
    """

    def __init__(self, options: Raycaster, body: int) -> None:
        self._options, self._body = options, body
        pos, quat = pose(options.pos, options.quat, options.euler)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quat)
        origins, directions = options.pattern.rays()
        self._origins = pos + origins @ matrix.reshape(3, 3).T
        self._directions = directions @ matrix.reshape(3, 3).T

    def returns(self, world: World, env: int, reading: np.ndarray) -> np.ndarray:
        """Return where rays ended, at the current pose of the link.

        Args:
            world: the engine.
            env: the env.
            reading: the stored distances, in m, of one reading.

        Returns:
            (n, 3) m in the world frame, of the n rays with a return.
        """
        distances = (reading[0] if self._options.history_length else reading).reshape(-1)
        hit = np.isfinite(distances) & (distances > 0) & (distances < self._options.max_range * (1 - 1e-6))
        place, turn = (world.bind(name)[env, self._body].double().numpy(force=True) for name in ("xpos", "xmat"))
        turn = mounting_turn(turn.reshape(3, 3), ALIGNMENTS[self._options.alignment])
        rays = np.flatnonzero(hit) % len(self._origins)  # echoes repeat the rays
        ends = self._origins[rays] + distances[hit, None] * self._directions[rays]
        return np.asarray(place + ends @ turn.T)


def find_lidars(episode: Episode, model: mujoco.MjModel) -> dict[str, StoredLidar]:
    """Return the lidars of an episode: path of the array of distances -> lidar.

    Sensors of classes that are not imported, patterns that change over time and ground truth are skipped.

    Args:
        episode: the episode.
        model: the model of its scene.
    """
    links = [model.body(i).name for i in range(model.nbody)]
    stored = set(episode.paths())
    found = {}
    for uuid, entry in episode.suite.items():
        described, path = entry.get("sensor"), f"{entry['at']}/distances"
        if described is None or entry["privileged"] or path not in stored:
            continue
        try:
            options = sensor_type(described["type"])(**described["options"])
            if isinstance(options, Raycaster) and options.pattern.n_frames == 1:
                link = resolve_name(options.link, links, "link", f"lidar {uuid!r}")
                found[path] = StoredLidar(options, links.index(link))
        except SensoriumError:
            continue
    return found
