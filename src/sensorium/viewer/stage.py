"""The scene in 3D: geoms, sensors and debug drawings of sensors, as nodes of a viser scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import viser

from sensorium.cameras import CameraSensor
from sensorium.viewer.geometry import GeomBatch, capsule, geom_batches, geom_rgba, infinite_planes
from sensorium.viewer.mirror import Mirror
from sensorium.worlds import Painter
from sensorium.worlds.srgb import decode_srgb

if TYPE_CHECKING:
    import trimesh

_SEE_THROUGH = 0.25
"""Opacity of walls that are seen through."""
_RETURNS = (232, 140, 20)
"""Colour of the returns of lidars."""
_MAX_RETURNS = 6000
"""Maximum number of returns of a lidar that are drawn."""
_FRAME = 0.08
"""Length of the axes of a sensor's frame in metres."""
_BALL = capsule(1.0, 0.0)


class Stage:
    """The nodes below "/world". To follow a body, that node moves, so that the user's camera stays unchanged.

    Args:
        server: the viser server.
        mirror: the env to draw.
        cameras: cameras whose frusta are drawn.
        around: center (3,) and extent of the scene in metres. Default: those of the model.

    Attributes:
        show_collision: whether collision geoms (groups 3 to 5) are drawn.
        show_sensors: whether frames of sensors and frusta of cameras are drawn.
        show_debug: whether debug drawings of sensors are drawn.
        show_returns: whether returns of lidars are drawn.
        show_walls: whether walls are opaque; otherwise they are seen through.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        mirror: Mirror,
        cameras: Sequence[CameraSensor],
        around: tuple[np.ndarray, float] | None = None,
    ) -> None:
        self._api = server.scene
        self._mirror = mirror
        self._cameras = cameras
        model = mirror.model
        self.center, self.extent = around or (np.array(model.stat.center), float(model.stat.extent))
        self._root = self._api.add_frame("/world", show_axes=False)
        self._sites = np.array([i for i in range(model.nsite) if model.site(i).name.endswith(":site")], int)
        self._geoms: list[tuple[viser.BatchedMeshHandle, GeomBatch]] = []
        self._planes: list[tuple[viser.GridHandle, int]] = []
        self._painted: dict[str, tuple[viser.SceneNodeHandle, int]] = {}
        self.show_collision = False
        self.show_sensors = True
        self.show_debug = True
        self.show_returns = True
        self.show_walls = False
        self._returns: dict[str, viser.PointCloudHandle] = {}
        self.build_geoms()
        self._build_sensors()

    # -- geoms --------------------------------------------------------------------------------------------------------

    def build_geoms(self) -> None:
        """Create the nodes of all geoms again."""
        for node, _ in (*self._geoms, *self._planes):
            node.remove()
        model = self._mirror.model
        self._geoms = [(self._add_part(i, part), part) for i, part in enumerate(geom_batches(model))]
        self._planes = [(self._add_plane(int(geom)), int(geom)) for geom in infinite_planes(model)]

    def _add_part(self, number: int, part: GeomBatch) -> viser.BatchedMeshHandle:
        name = f"/world/geoms/{number}"
        count = len(part.geoms)
        poses = {
            "batched_wxyzs": np.tile(np.array([1.0, 0, 0, 0], np.float32), (count, 1)),
            "batched_positions": np.zeros((count, 3), np.float32),
            "batched_scales": part.scales.astype(np.float32),
            "visible": not part.collision or self.show_collision,
            "lod": "off",
        }
        if part.texture is not None and part.mesh.uv is not None:
            return self._api.add_batched_meshes_trimesh(name, _textured(part), **poses)
        return self._api.add_batched_meshes_simple(
            name,
            part.mesh.vertices.astype(np.float32),
            part.mesh.faces.astype(np.uint32),
            batched_colors=_light(part.rgba[:, :3]),
            batched_opacities=self._opacities(part),
            flat_shading=part.flat,
            **poses,
        )

    def _opacities(self, part: GeomBatch) -> np.ndarray | None:
        """Return the opacity of each geom, None if all are opaque."""
        opacities = part.rgba[:, 3] * (_SEE_THROUGH if part.wall and not self.show_walls else 1.0)
        return None if (opacities >= 1).all() else opacities.astype(np.float32)

    def _add_plane(self, geom: int) -> viser.GridHandle:
        rgba = geom_rgba(self._mirror.model, geom)
        towards = 1.0 if rgba[:3].mean() < 0.5 else 0.0  # lines that stand out slightly from the plane
        fine, coarse = (rgba[:3] + amount * (towards - rgba[:3]) for amount in (0.12, 0.25))
        cell = 10.0 ** np.floor(np.log10(max(self.extent, 1e-3)))  # so that some lines are visible at every scale
        return self._api.add_grid(
            f"/world/planes/{geom}",
            infinite_grid=True,
            cell_size=cell / 2,
            section_size=cell,
            cell_color=_colour(fine),
            section_color=_colour(coarse),
            fade_distance=30 * cell,
            plane_color=_colour(rgba[:3]),
            plane_opacity=float(rgba[3]),
            shadow_opacity=0.25,
        )

    # -- sensors ------------------------------------------------------------------------------------------------------

    def _build_sensors(self) -> None:
        count, size = len(self._sites), min(_FRAME, 0.1 * self.extent)
        self._frames = None
        if count:
            turns = np.tile(np.array([1.0, 0, 0, 0], np.float32), (count, 1))
            self._frames = self._api.add_batched_axes(
                "/world/sensors/frames",
                turns,
                np.zeros((count, 3), np.float32),
                axes_length=size,
                axes_radius=size / 25,
            )
        self._frusta = []
        for camera in self._cameras:
            fov, aspect = _frustum(camera, 0)
            node = self._api.add_camera_frustum(
                f"/world/sensors/{camera.uuid}",
                fov=fov,
                aspect=aspect,
                scale=size,
                thickness=size / 40,
                color=(40, 90, 160),
            )
            self._frusta.append(node)

    def set_visible(self) -> None:
        """Apply the switches."""
        for node, part in self._geoms:
            node.visible = not part.collision or self.show_collision
            if part.wall:
                node.batched_opacities = self._opacities(part)
        for node in self._returns.values():
            node.visible = self.show_returns
        for node in (*self._frusta, *([self._frames] if self._frames is not None else [])):
            node.visible = self.show_sensors

    # -- drawing ------------------------------------------------------------------------------------------------------

    def draw(self, env: int, painter: Painter, follow: int) -> None:
        """Move all nodes to the current poses.

        Args:
            env: number of the env.
            painter: debug drawings.
            follow: id of the body to follow, or -1.
        """
        mirror = self._mirror
        data = mirror.data
        quats = mirror.geom_quats
        for node, part in self._geoms:
            node.batched_positions = data.geom_xpos[part.geoms].astype(np.float32)
            node.batched_wxyzs = quats[part.geoms].astype(np.float32)
        for node, geom in self._planes:
            node.position, node.wxyz = data.geom_xpos[geom], quats[geom]
        if self._frames is not None and self.show_sensors:
            self._frames.batched_positions = data.site_xpos[self._sites].astype(np.float32)
            self._frames.batched_wxyzs = mirror.site_quats(self._sites).astype(np.float32)
        if self.show_sensors:
            for node, camera in zip(self._frusta, self._cameras, strict=True):
                pose = camera.cam2world_cv[env].double().numpy(force=True)
                turn = np.zeros(4)
                mujoco.mju_mat2Quat(turn, pose[:3, :3].flatten())
                node.position, node.wxyz = pose[:3, 3], turn
                fov, aspect = _frustum(camera, env)
                if (node.fov, node.aspect) != (fov, aspect):
                    node.fov, node.aspect = fov, aspect
        self._paint(painter if self.show_debug else Painter())
        self._root.position = np.zeros(3) if follow < 0 else self.center - data.xpos[follow]

    def draw_returns(self, returns: Mapping[str, np.ndarray]) -> None:
        """Draw where the rays of lidars end.

        Args:
            returns: uuid of a sensor -> positions in the world frame, (n, 3) m.
        """
        for uuid in self._returns.keys() - returns.keys():
            self._returns.pop(uuid).remove()
        for uuid, points in returns.items():
            some = points[:: max(1, -(-len(points) // _MAX_RETURNS))].astype(np.float32)
            node = self._returns.get(uuid)
            if node is None:
                self._returns[uuid] = self._api.add_point_cloud(
                    f"/world/returns/{uuid}",
                    some,
                    _RETURNS,
                    point_size=float(np.clip(0.003 * self.extent, 0.004, 0.02)),
                    point_shape="circle",
                    precision="float32",
                    visible=self.show_returns,
                )
            else:
                node.points = some

    def _paint(self, painter: Painter) -> None:
        """Draw shapes: one node for all balls, and one per width of lines and of arrows.

        A node is created again if the number of its shapes changes.
        """
        groups: dict[str, list[Any]] = {}
        for shape in painter.shapes:
            ball = shape.kind == mujoco.mjtGeom.mjGEOM_SPHERE
            arrow = shape.kind == mujoco.mjtGeom.mjGEOM_ARROW
            kind = "balls" if ball else f"{'arrows' if arrow else 'lines'}/{shape.size[0]:.6f}"
            groups.setdefault(kind, []).append(shape)
        for kind in self._painted.keys() - groups.keys():
            self._painted.pop(kind)[0].remove()
        for kind, shapes in groups.items():
            self._paint_group(kind, shapes)

    def _paint_group(self, kind: str, shapes: list[Any]) -> None:
        values: dict[str, Any] = {}
        colours = _bytes(np.array([shape.rgba[:3] for shape in shapes]))
        positions = np.array([shape.position for shape in shapes], np.float32)
        if kind == "balls":
            values["batched_positions"] = positions
            values["batched_colors"] = _light(np.array([shape.rgba[:3] for shape in shapes]))
            values["batched_scales"] = np.array([shape.size for shape in shapes], np.float32)
        else:
            along = np.array([shape.rotation[:, 2] for shape in shapes])
            sizes = np.array([shape.size for shape in shapes])
            arrow = kind.startswith("arrows")
            starts = positions if arrow else positions - along * sizes[:, 1:2]
            ends = positions + along * (sizes[:, 2:] if arrow else sizes[:, 1:2])
            values["points"] = np.stack([starts, ends], axis=1).astype(np.float32)
            values["colors"] = colours if arrow else np.repeat(colours[:, None], 2, axis=1)
        node, count = self._painted.get(kind, (None, 0))
        if count == len(shapes):
            for name, value in values.items():
                setattr(node, name, value)
            return
        name, width = f"/world/painted/{kind}", float(shapes[0].size[0])
        if kind == "balls":
            turns = np.tile(np.array([1.0, 0, 0, 0], np.float32), (len(shapes), 1))
            node = self._api.add_batched_meshes_simple(
                name,
                _BALL.vertices.astype(np.float32),
                _BALL.faces.astype(np.uint32),
                batched_wxyzs=turns,
                lod="off",
                cast_shadow=False,
                **values,
            )
        elif kind.startswith("lines"):
            node = self._api.add_line_segments(name, thickness=2 * width, **values)
        else:
            node = self._api.add_arrows(
                name, shaft_radius=width, head_radius=2 * width, head_length=4 * width, **values
            )
        self._painted[kind] = (node, len(shapes))


def _frustum(camera: CameraSensor, env: int) -> tuple[float, float]:
    """Return the vertical field of view in rad, and the aspect ratio, of a camera in one env."""
    fx, fy = camera.focal_length[env].tolist()
    width, height = camera.resolution
    return float(2 * np.arctan(height / 2 / fy)), width / fx / (height / fy)


def _textured(part: GeomBatch) -> trimesh.Trimesh:
    import trimesh
    from PIL import Image

    rgba = _bytes(part.rgba[0])
    material = trimesh.visual.material.PBRMaterial(
        baseColorTexture=Image.fromarray(part.texture), baseColorFactor=rgba, metallicFactor=0.0, roughnessFactor=0.8
    )
    visual = trimesh.visual.TextureVisuals(uv=part.mesh.uv, material=material)
    return trimesh.Trimesh(part.mesh.vertices, part.mesh.faces, visual=visual, process=False)


def _light(colours: np.ndarray) -> np.ndarray:
    """Return sRGB colours as linear light, in which viser interprets the colours of batched meshes."""
    return _bytes(decode_srgb(colours))


def _bytes(colours: np.ndarray) -> np.ndarray:
    return np.clip(np.round(np.asarray(colours) * 255), 0, 255).astype(np.uint8)


def _colour(rgb: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = (int(each) for each in _bytes(rgb))
    return red, green, blue
