"""Camera geometry: projection, depth, points and poses, compared with closed forms."""

import math

import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import look_at, project
from sensorium.cameras.geometry import rotation


def test_look_at_and_rotation_use_gl_axes():
    # a camera at the origin that looks along +x, z up: right is -y, up is z, backward is -x
    turned = look_at(torch.zeros(3), torch.tensor([2.0, 0, 0]), torch.tensor([0.0, 0, 1]))
    assert torch.allclose(turned, torch.tensor([[0.0, 0, -1], [-1, 0, 0], [0, 1, 0]]))
    straight_down = look_at(torch.tensor([0.0, 0, 5]), torch.zeros(3), torch.tensor([0.0, 0, 1]))
    assert torch.allclose(straight_down @ straight_down.T, torch.eye(3), atol=1e-6)
    assert torch.allclose(straight_down[:, 2], torch.tensor([0.0, 0, 1]))
    assert torch.linalg.det(straight_down) == pytest.approx(1.0)
    half = math.sqrt(0.5)
    assert torch.allclose(
        rotation(torch.tensor([half, 0, 0, half])), torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]), atol=1e-6
    )


def test_project_matches_a_hand_computed_pixel():
    matrix = torch.tensor([[[100.0, 0, 32], [0, 200, 24], [0, 0, 1]]])
    # the origin of the world is 1 m in front of the camera
    extrinsics = torch.cat([torch.eye(3), torch.tensor([[0.0], [0], [1]])], 1)[None]
    pixels, depth = project([[0.1, -0.2, 1.0]], matrix, extrinsics)
    assert depth.item() == pytest.approx(2.0)
    assert pixels[0, 0].tolist() == pytest.approx([32 + 100 * 0.05, 24 - 200 * 0.1])


@needs_gl
class TestImages:
    def spheres(self, **options):
        """Build small spheres at random positions in front of an oblique camera."""
        rng = np.random.default_rng(3)
        scene = sn.Scene()
        positions = rng.uniform((1.5, -0.8, -0.6), (3.0, 0.8, 0.6), (12, 3))
        for number, position in enumerate(positions):
            scene.add_object(sn.Sphere(radius=0.03, collide=False), name=f"s{number}", pos=tuple(position))
        camera = scene.add_sensor(
            sn.Camera(
                uuid="c",
                pos=(0.1, 0.2, 0.3),
                lookat=(2, 0.1, 0),
                outputs=("depth", "segmentation", "points"),
                **{"resolution": (200, 160), **options},
            )
        )
        scene.build(n_envs=2)
        return scene, camera, positions

    @pytest.mark.parametrize(
        "options",
        [
            {"fov": 60},
            {"focal_length": 180.0},
            {"focal_length": (120.0, 190.0)},
            {"fov": 70, "principal_point": (60.0, 110.0)},
            {"fov": 60, "up": (0.3, 0.5, 1.0)},
        ],
        ids=["fov", "focal", "oblong", "off-centre", "rolled"],
    )
    def test_projected_points_match_rendered_pixels(self, options):
        scene, camera, positions = self.spheres(**options)
        pixels, _depth = project(torch.tensor(positions), camera.intrinsics, camera.extrinsics_cv)
        bodies = camera.read().segmentation[1, ..., 0].numpy()
        checked = 0
        for number, (x, y) in enumerate(pixels[1].tolist()):
            rows, columns = np.nonzero(bodies == scene.model.body(f"s{number}").id)
            inside = 6 < x < 194 and 6 < y < 154
            if len(rows) > 8 and inside:  # compare with the centre of its visible part
                assert columns.mean() + 0.5 == pytest.approx(x, abs=0.5)
                assert rows.mean() + 0.5 == pytest.approx(y, abs=0.5)
                checked += 1
        assert checked >= 5

    def test_points_are_on_the_surfaces(self):
        scene, camera, positions = self.spheres(fov=60)
        data = camera.read()
        for number, position in enumerate(positions):
            seen = data.segmentation[0, ..., 0] == scene.model.body(f"s{number}").id
            distance = (data.points[0][seen] - torch.tensor(position).float()).norm(dim=-1)
            assert bool(((distance - 0.03).abs() < 2e-3).all())

    def wall(self, distance=3.0, turn=0.0, **options):
        """Build a wall across the x axis, and return a camera at the origin that is turned to the left, rad."""
        scene = sn.Scene()
        scene.add_object(sn.Box(size=(0.2, 60, 60)), pos=(distance + 0.1, 0, 0))
        camera = scene.add_sensor(
            sn.Camera(
                **{
                    "lookat": (math.cos(turn), math.sin(turn), 0),
                    "resolution": (64, 48),
                    "fov": 50,
                    "outputs": ("depth", "normals", "points"),
                    **options,
                }
            )
        )
        scene.build()
        return camera

    @pytest.mark.parametrize("planes", [{}, {"near": 0.1, "far": 10.0}, {"near": 0.01, "far": 1000.0}])
    @pytest.mark.parametrize("outputs", [("depth",), ("rgb", "depth"), ("rgb", "depth", "segmentation")])
    def test_depth_of_a_wall_is_exact_to_a_millimetre(self, planes, outputs):
        depth = self.wall(outputs=outputs, **planes).read().depth[0]
        assert (
            float((depth - 3.0).abs().max()) < 1e-3
        )  # along the optical axis, so the same at the centre and in the corners

    def test_depth_points_and_normals_of_an_oblique_wall(self):
        turn = 0.4
        camera = self.wall(turn=turn, principal_point=(20.0, 30.0))
        data = camera.read()
        focal = float(camera.intrinsics[0, 0, 0])
        x = (torch.arange(64) + 0.5 - 20.0) / focal
        # a ray with slope x points right; per metre of depth it advances cos(turn) + x sin(turn) along the normal
        expected = 3.0 / (math.cos(turn) + x * math.sin(turn))
        assert float((data.depth[0] - expected).abs().max()) < 1e-3
        assert float((data.points[0, ..., 0] - 3.0).abs().max()) < 1e-3
        normal = torch.tensor([-math.sin(turn), 0.0, -math.cos(turn)])
        assert float((data.normals[0] - normal).abs().max()) < 5e-3

    def test_surfaces_outside_near_and_far_are_not_rendered(self):
        assert torch.isinf(self.wall(far=2.9).read().depth).all()
        assert torch.isfinite(self.wall(far=3.1).read().depth).all()
        assert torch.isinf(self.wall(near=3.3, far=9.0).read().depth).all()

    def test_infinite_planes_reach_the_far_plane(self):
        scene = sn.Scene()
        scene.add_object(sn.Plane())
        camera = scene.add_sensor(
            sn.Camera(pos=(0, 0, 1), lookat=(1, 0, 1), resolution=(9, 101), fov=20, far=80, outputs=("depth",))
        )
        scene.build()
        depth = camera.read().depth[0, :, 4]
        y = (torch.arange(101) + 0.5 - 50.5) / float(camera.intrinsics[0, 1, 1])
        expected = torch.where((y > 0) & (1 / y < 80), 1 / y, torch.inf)
        hit = torch.isfinite(expected) & (expected < 75)
        assert float(((depth - expected) / expected)[hit].abs().max()) < 1e-3
        assert torch.isinf(depth[expected > 85]).all()

    def test_intrinsics_and_extrinsics_are_consistent(self):
        _scene, camera, _ = self.spheres(fov=60)
        k, eye = camera.intrinsics, torch.eye(4).expand(2, 4, 4)
        assert float(k[0, 0, 0]) == pytest.approx(160 / (2 * math.tan(math.radians(30))))
        assert (float(k[0, 0, 2]), float(k[0, 1, 2])) == (100.0, 80.0)
        bottom = torch.tensor([[[0.0, 0, 0, 1]]]).expand(2, 1, 4)
        world_to_camera = torch.cat([camera.extrinsics_cv, bottom], 1)
        assert torch.allclose(world_to_camera @ camera.cam2world_cv, eye, atol=1e-5)
        assert torch.allclose(camera.cam2world_gl[:, :3, 2], -camera.cam2world_cv[:, :3, 2])
        assert torch.allclose(camera.cam2world_gl[:, :3, 3], torch.tensor([0.1, 0.2, 0.3]))
        forward = torch.tensor([1.9, -0.1, -0.3])
        assert torch.allclose(camera.cam2world_cv[0, :3, 2], forward / forward.norm(), atol=1e-6)

    def test_intrinsics_can_differ_per_env(self):
        scene, camera, positions = self.spheres(fov=60)
        first = camera.read().depth.clone()
        camera.set_intrinsics(fov=40, principal_point=(90, 70), envs=[1])
        k = camera.intrinsics
        assert float(k[1, 1, 1]) == pytest.approx(160 / (2 * math.tan(math.radians(20))))
        assert k[1, :2, 2].tolist() == [90, 70]
        pixels, _ = project(torch.tensor(positions), k, camera.extrinsics_cv)
        data = camera.read()
        assert torch.equal(data.depth[0], first[0])
        bodies, inside = data.segmentation[1, ..., 0], 0
        for number, (x, y) in enumerate(pixels[1].tolist()):
            if 0 < x < 200 and 0 < y < 160:
                inside += int(bodies[int(y), int(x)] == scene.model.body(f"s{number}").id)
        assert inside >= 4

    def test_camera_moves_with_its_link(self):
        scene = sn.Scene()
        half = math.sqrt(0.5)
        scene.add_object(sn.Box(), name="box", pos=(1, 2, 3), quat=(half, 0, 0, half))  # rotated by 90° about z
        by_quat = scene.add_sensor(sn.Camera(uuid="q", link="box", pos=(0.5, 0, 0), resolution=(4, 4)))
        by_point = scene.add_sensor(
            sn.Camera(uuid="p", link="box", pos=(0.5, 0, 0), lookat=(1.5, 0, 0), resolution=(4, 4))
        )
        scene.build()
        assert torch.allclose(by_quat.cam2world_gl[0, :3, 3], torch.tensor([1.0, 2.5, 3.0]), atol=1e-6)
        turned = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
        assert torch.allclose(by_quat.cam2world_gl[0, :3, :3], turned, atol=1e-6)
        assert torch.allclose(by_point.cam2world_cv[0, :3, 2], torch.tensor([0.0, 1, 0]), atol=1e-6)

    def test_identity_quaternion_looks_along_minus_z(self):
        scene = sn.Scene()
        scene.add_object(sn.Box(size=(4, 4, 0.2)), pos=(0, 0, -2.1))
        camera = scene.add_sensor(sn.Camera(quat=(1, 0, 0, 0), resolution=(8, 8), outputs=("depth",)))
        scene.build()
        assert float((camera.read().depth - 2.0).abs().max()) < 1e-3
