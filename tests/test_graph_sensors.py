"""GPU backends of sensors, run on the CPU by an imitation of the GPU world (see test_graph_path.py).

They are compared with MuJoCo's own rays, with the CPU backends in the same states (random numbers bit by bit), and with
the closed forms and the sensor contract that also hold for the CPU backends. Single kernels are compared in
test_robot_kernels.py and test_ray_kernels.py.
"""

import mujoco
import numpy as np
import pytest
import torch
from everywhere import RAYS, SHAPES, mobile_scene, shapes_scene
from robot_scenes import TOOL
from test_graph_path import GraphWorld

import sensorium as sn
from sensorium.testing import flat
from sensorium.worlds import scene as scenes

wp = pytest.importorskip("warp")

# closed forms and contracts, which the fixture below runs with the GPU backends
from test_mobile_sensors import (  # noqa: E402, F401
    TestGPS,
    TestWheelOdometry,
    test_barometer_reads_the_standard_atmosphere,
    test_declination_hard_iron_and_soft_iron,
    test_flow_of_a_tilted_sensor,
    test_flow_of_rotation_is_the_angular_rate,
    test_flow_of_translation_is_speed_over_height,
    test_flow_quality_is_zero_outside_the_limits,
    test_gps_degrees_have_the_lengths_of_wgs84,
    test_gps_holds_the_last_fix,
    test_gps_world_is_a_tangent_plane,
    test_heading_is_clockwise_from_north_to_the_x_axis,
    test_odometry_moves_in_steps_of_the_encoder,
    test_odometry_of_a_circle,
    test_tilt_compensation_of_the_heading,
)
from test_ray_scanning import (  # noqa: E402, F401
    TestScanningLidar,
    test_columns_hold_their_noise_and_lost_returns_until_the_next_scan,
    test_diverging_beam_reads_the_nearest_surface_in_its_cone,
    test_fast_scanner_casts_every_column_in_every_step,
    test_noise_grows_with_range,
    test_points_in_the_world_frame_are_those_at_capture,
    test_ray_dropout_loses_single_returns,
    test_reset_scans_the_whole_revolution_of_those_envs,
    test_scanned_columns_show_the_wall_at_their_own_time,
)
from test_rays import (  # noqa: E402, F401
    test_alignment_of_the_mounting_frame,
    test_all_fields_in_a_room,
    test_depth_noise_is_along_the_optical_axis,
    test_depth_of_a_tilted_plane,
    test_distance_to_a_moving_wall,
    test_exclusion_of_nested_bodies,
    test_exclusion_of_touching_and_overlapping_bodies,
    test_grazing_rays_and_misses,
    test_height_scan_of_a_step,
    test_noisy_points_agree_with_noisy_distances,
    test_sensor_on_the_world_sees_fixed_bodies,
    test_surface_nearer_than_min_range_blocks_the_ray,
)
from test_robot_sensors import (  # noqa: E402, F401
    TestBatteryState,
    test_battery_energy_is_kinetic_energy_over_efficiency,
    test_battery_runs_empty_and_restarts_with_initial_charge,
    test_battery_voltage_sags_under_load,
    test_clock_resolution_quantises_stamps,
    test_compensated_tool_reads_zero,
    test_joint_torque_holds_a_horizontal_link,
)


@pytest.fixture(autouse=True)
def graph_world(monkeypatch):
    """Build all scenes with the imitation of the GPU world."""
    monkeypatch.setattr(scenes, "MujocoWorld", GraphWorld)


def build_both(make, monkeypatch):
    """Return the same scene with CPU backends and with GPU backends."""
    graph = make()
    assert graph.world.is_gpu
    with monkeypatch.context() as patched:
        patched.setattr(scenes, "MujocoWorld", GraphWorld.__base__)
        plain = make()
    assert not plain.world.is_gpu
    return plain, graph


def compare(plain, graph, when, rtol, atol):
    """Compare all readings and ground truths of two scenes."""
    for uuid in plain.sensors:
        for read in ("read", "read_ground_truth"):
            expected, got = (flat(getattr(one[uuid], read)()) for one in (plain, graph))
            what = f"{uuid}.{read} {when}"
            torch.testing.assert_close(
                got, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m, what=what: f"{what}: {m}"
            )


# -- rays --------------------------------------------------------------------------------------------------------------


def test_rays_hit_the_same_geoms_as_mujoco():
    """Every kind of geom, from outside and from inside, with normals, and through excluded bodies."""
    import mujoco_warp as mjw

    from sensorium.worlds import warp_rays
    from sensorium.worlds.rays import RayBatch

    model = mujoco.MjModel.from_xml_string(SHAPES)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with wp.ScopedDevice("cpu"):
        warp_model = mjw.put_model(model)
    random, n = np.random.default_rng(2), 3000
    directions = random.normal(size=(n, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = random.normal(size=(n, 3)) * 0.8 + (0, 0, 0.3)
    points[:600] = data.geom_xpos[np.arange(600) % model.ngeom]
    unseen = np.zeros((2, model.nbody), bool)
    unseen[1, 1:4] = True
    viewer = np.arange(n) % 2
    rays = RayBatch.allocate(2, viewer, unseen, True, torch.device("cpu"))
    rays.points[:], rays.directions[:] = torch.from_numpy(points), torch.from_numpy(directions)
    places = np.repeat(data.geom_xpos[None], 2, 0), np.repeat(data.geom_xmat.reshape(1, -1, 3, 3), 2, 0)
    kinds = zip(places, (wp.vec3, wp.mat33), strict=True)
    places = [wp.array(place.astype(np.float32), dtype=kind, device="cpu") for place, kind in kinds]
    rays.distances.fill_(-7.0)
    warp_rays.cast(warp_model, warp_rays.MeshTrees(model, "cpu"), *places, rays, torch.tensor([True, False]))
    assert (rays.distances[1] == -7).all(), "envs outside of the mask are not changed"

    expected, geoms, normals = np.zeros(n), np.zeros(n, np.int32), np.zeros((n, 3))
    geom, normal = np.zeros(1, np.int32), np.zeros(3)
    kept = model.geom_rgba[:, 3].copy()
    for i in range(n):
        hidden = unseen[viewer[i]][model.geom_bodyid]
        model.geom_rgba[:, 3] = np.where(hidden, 0.0, kept)  # MuJoCo's rays ignore invisible geoms
        expected[i] = mujoco.mj_ray(model, data, points[i], directions[i], None, 1, -1, geom, normal)
        geoms[i], normals[i] = geom[0], normal
    np.testing.assert_array_equal(rays.geoms[0], geoms)
    np.testing.assert_allclose(rays.distances[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rays.normals[0], normals, atol=2e-4)
    hit = set(model.geom_type[geoms[geoms >= 0]].tolist())
    assert len(hit) == 8, "plane, height field, sphere, capsule, ellipsoid, cylinder, box, mesh"


def test_ray_readings_agree_with_the_cpu(monkeypatch):
    plain, graph = build_both(shapes_scene, monkeypatch)
    assert "after the graph" not in graph.describe()
    close = {"rtol": 1e-4, "atol": 5e-4}  # normals of grazing hits on curved surfaces are the worst in float32
    compare(plain, graph, "at build", **close)
    for step in range(25):
        for one in (plain, graph):
            one.step()
            if step == 8:
                one.reset(envs=[1])
            if step == 12:
                one["lidar"].set(noise=0.0, ray_dropout=0.5, envs=[0])
                one["scan"].set(noise_per_metre=0.2, ray_dropout=0.0)
        compare(plain, graph, f"at step {step}", **close)


def test_lost_returns_and_noise_have_the_bits_of_the_numba_kernel():
    from sensorium.sensors.rays import kernels as ray_kernels
    from sensorium.sensors.rays.ray_layout import random_keys

    scene = shapes_scene(n_envs=5, rays=RAYS[:1])
    lidar = scene["lidar"]
    lidar.set(noise=0.0)
    lidar.set(noise_per_metre=0.1, ray_dropout=0.4, envs=[1, 3])
    scene.step(3)
    group = lidar.group
    expected = group.truth.clone()
    parameters = [group.parameters[name].numpy() for name in ("noise_per_metre", "ray_dropout")]
    ray_kernels.roughen(
        group.backend.layout.table, expected.numpy(), *parameters, *random_keys(group), group.draw.numpy()
    )
    assert torch.equal(group.reading, expected)
    n_beams = lidar._rig.n_beams
    lost = group.reading[:n_beams].isinf() & group.truth[:n_beams].isfinite()
    share = lost.float().mean(0)
    assert share[[1, 3]].min() > 0.2
    assert share[4] < 0.15


def test_reset_keeps_the_rays_of_other_envs():
    scene = shapes_scene(n_envs=4)
    scene.step(7)
    before = {uuid: flat(sensor.read()).clone() for uuid, sensor in scene.sensors.items()}
    scene.reset(envs=[2])
    for uuid, old in before.items():
        now = flat(scene[uuid].read())
        others = [0, 1, 3]
        torch.testing.assert_close(now[others], old[others], rtol=0, atol=0, equal_nan=True)
        assert not torch.equal(now[2].nan_to_num(), old[2].nan_to_num())


def test_drawn_rays_end_at_the_points():
    from sensorium.worlds import Painter

    scene = shapes_scene(n_envs=2, rays=(RAYS[0], RAYS[2]))
    scene.step(3)
    for uuid in ("lidar", "scan"):
        sensor = scene[uuid]
        backend = sensor.group.backend
        _, ends = backend.layout.segments(scene.world, sensor._position, 1, sensor._true_distances(1))
        seen = np.isfinite(ends).all(axis=1)
        if uuid == "scan":  # 15 Hz of 24 columns: 3.6 per step, of 9 beams each
            fired = backend.fired_beams(sensor._position, 1)
            assert fired.sum() in (27, 36)
            points = sensor.read_ground_truth().points[1].reshape(-1, 3)
            seen &= fired
            np.testing.assert_allclose(ends[seen], points[seen], atol=1e-4)
        sensor._draw(Painter(), 1)
        assert seen.any()


# -- sensors whose GPU backend uses torch ------------------------------------------------------------------------------


def torch_scene():
    """Return a swinging arm and a falling box with every sensor whose GPU backend uses torch."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    scene.add_robot(TOOL, name="robot")
    scene.add_object(sn.Box(), name="box", pos=(1, 0, 0.6), quat=(0.9, 0.3, 0.1, 0.2), free=True)
    for options in (
        sn.JointTorque(which="total", uuid="torque"),
        sn.ForceTorque(link="wrist", tool_mass=0.3, tool_com=(0.1, 0.2, 0.3), uuid="wrench"),
        sn.Barometer(link="box", uuid="air"),
        sn.Magnetometer(link="box", uuid="north", declination=0.1),
        sn.Magnetometer(link="box", uuid="level", tilt_compensation=False),
        sn.OpticalFlow(link="box", uuid="flow", range_noise=0.01),
        sn.OpticalFlow(link="box", uuid="compensated", gyro_compensation=True),
        sn.FramePose(link="box", relative_to="wrist", uuid="pose", rot_noise=0.1),
        sn.Contact(link="box", uuid="touch", threshold=1.0, noise=1.0),
        sn.Clock(uuid="clock", drift=20.0, offset=0.1),
    ):
        scene.add_sensor(options)
    scene.build(n_envs=3, seed=8)
    scene.world.bind("qvel")[:, :8] += torch.linspace(-1, 1, 8).double() * torch.tensor([[0.3], [1.0], [3.0]])
    scene.forward()
    return scene


def test_torch_backends_agree_with_the_numba_kernels(monkeypatch):
    plain, graph = build_both(torch_scene, monkeypatch)
    touched = torch.zeros(3, dtype=torch.bool)
    for step in range(40):
        for one in (plain, graph):
            one.step()
        compare(plain, graph, f"at step {step}", 1e-5, 1e-5)
        touched |= plain["touch"].read()[:, 0]
    assert touched.all()


# -- GPS, wheel odometry, battery --------------------------------------------------------------------------------------


def test_gps_odometry_and_battery_agree_with_the_cpu(monkeypatch):
    plain, graph = build_both(mobile_scene, monkeypatch)
    assert "after the graph" not in graph.describe()
    lost = torch.zeros(5, dtype=torch.bool)
    for step in range(150):
        for one in (plain, graph):
            one.step()
            if step == 20:
                one.reset(envs=[1, 3])
                one["cart"].set_ctrl([4.0, 7.0])
            if step == 25:
                one["gps"].set(visible=False, envs=[0, 1])
                one["odometry"].set(track_error=0.2, envs=[2])
                one["battery"].set(initial_charge=0.3)
            if step == 30:
                one["gps"].set(visible=True)
                one.reset(envs=[4])
                one["cart"].set_ctrl([4.0, 7.0])
        # as on a GPU, sensors get positions in float32
        compare(plain, graph, f"at step {step}", 1e-6, 2e-6)
        lost |= graph["gps"].read().fix[:, 0] == 0
    assert lost.all()
    assert graph["battery"].read().charge[4].item() < 0.31
    assert graph["odometry"].read().yaw.min() > 0.03


def test_reset_keeps_poses_and_charges_of_other_envs():
    scene = mobile_scene()
    scene.step(30)
    before = {uuid: flat(sensor.read_ground_truth()).clone() for uuid, sensor in scene.sensors.items()}
    scene.reset(envs=[1])
    for uuid, old in before.items():
        assert torch.equal(flat(scene[uuid].read_ground_truth())[[0, 2, 3, 4]], old[[0, 2, 3, 4]]), uuid
    for uuid in ("odometry", "counted"):
        assert scene[uuid].read().pos[1].abs().max() == 0
    assert scene["battery"].read().energy[1] == 0
    assert scene["small"].read().charge[1].item() == pytest.approx(0.7)


def test_clock_is_exact_after_an_hour():
    """The engine's own time is float32 on a GPU, and off by up to 0.1 ms after an hour."""
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    clock = scene.add_sensor(sn.Clock(drift=20.0))
    scene.build(n_envs=2)
    scene.world.bind("time")[1] = 3600.0
    scene.forward(envs=[1])
    scene.step()
    assert clock.read_ground_truth()[:, 0].tolist() == pytest.approx([0.01, 3600.01], abs=1e-9)
    assert clock.read()[1, 0].item() == pytest.approx(3600.01 * (1 + 20e-6), abs=1e-7)
