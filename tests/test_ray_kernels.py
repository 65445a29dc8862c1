"""Numba and Warp kernels of ray-casting sensors, both against plain NumPy references on random input.

The pairs, Numba and Warp: ``find_due``, ``aim`` and ``place``, ``aim``; ``collect``, ``describe`` and ``collect``;
``roughen``; ``hold``; ``limit``, ``sensor_points``, ``world_points``, ``pass_on`` and ``read``. They run through the
backends of one scene, Warp on its CPU device.
"""

import math

import numpy as np
import pytest
import torch
from everywhere import RAYS, shapes_scene
from ray_scenes import matrix
from reference import normals, threefry
from test_graph_path import GraphWorld

from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.ray_layout import random_keys
from sensorium.worlds import scene as scenes

pytest.importorskip("warp")

FIELDS = {"normals": kernels.NORMALS, "body_ids": kernels.BODY_IDS, "intensity": kernels.INTENSITY}
WIDTHS = {"normals": 3, "body_ids": 1, "intensity": 1}
MISSING = {"normals": 0.0, "body_ids": -1.0, "intensity": 0.0}


@pytest.fixture(scope="module")
def groups():
    """Return the lidars of one scene with CPU and GPU backends."""
    plain = shapes_scene(rays=RAYS[:3])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scenes, "MujocoWorld", GraphWorld)
        graph = shapes_scene(rays=RAYS[:3])
    for scene in (plain, graph):
        scene.step(5)
    return [scene["lidar"].group for scene in (plain, graph)]


@pytest.fixture
def signal(groups):
    """Return random intermediate columns (columns, B), with some beams without a return."""
    rng = np.random.default_rng(3)
    group = groups[0]
    data = rng.normal(size=(group.n_columns, group.n_envs)).astype(np.float32)
    for row in group.backend.layout.table:
        distances = slice(row[kernels.DISTANCES], row[kernels.DISTANCES] + row[kernels.BEAMS])
        data[distances] = rng.uniform(-1.0, 6.0, data[distances].shape)
        data[distances][rng.random(data[distances].shape) < 0.3] = np.inf
    return data


def test_rays_are_aimed_along_the_pattern_from_the_link(groups):
    """Only the slots that passed in the last step are cast: those in (t - dt, t]."""
    for group in groups:
        backend, layout, world = group.backend, group.backend.layout, group.world
        group.backend.update(group.truth.clone())
        for s, sensor in enumerate(group.sensors):
            rig, row = sensor._rig, layout.table[s]
            fired = backend.fired_beams(s, 1).reshape(rig.shape)
            if rig.scan_rate is None:
                slots = range(rig.n_slots)
            else:  # 15 revolutions per second of 24 columns, at 0.05 s
                slots = [n % 24 for n in range(100) if 0.04 + 1e-9 < n / (15 * 24) <= 0.05 + 1e-9]
                assert fired[:, slots].all()
                assert fired.sum() == len(slots) * rig.shape[0]
            origin, rotation = (world.bind(name)[1, row[kernels.BODY]].double().numpy() for name in ("xpos", "xmat"))
            directions = rig.pattern.rays()[1].reshape(*rig.shape, 3)
            mount = matrix_of_euler(sensor.options.euler) if sensor.options.euler else np.eye(3)
            expected = directions @ (rotation.reshape(3, 3) @ mount).T
            points, cast = aimed_rays(backend, s)
            np.testing.assert_allclose(points, np.broadcast_to(origin, points.shape), atol=1e-6)
            if rig.scan_rate is None:
                np.testing.assert_allclose(cast, expected.reshape(-1, 3), atol=1e-6)
            else:
                count = layout.max_due * rig.shape[0]
                wanted = np.concatenate([expected[:, slot] for slot in reversed(slots)])
                np.testing.assert_allclose(cast[: len(wanted)], wanted, atol=1e-6)
                assert len(cast) == count


def matrix_of_euler(euler):
    """Return the rotation matrix of roll, pitch and yaw."""
    roll, pitch, yaw = (angle / 2 for angle in euler)
    return (
        matrix((math.cos(yaw), 0, 0, math.sin(yaw)))
        @ matrix((math.cos(pitch), 0, math.sin(pitch), 0))
        @ matrix((math.cos(roll), math.sin(roll), 0, 0))
    )


def aimed_rays(backend, s):
    """Return origins and directions of the rays that a sensor cast in env 1 in the last step."""
    plan = backend._plans[0]
    counts = backend.layout.count_bundles(False) * backend.layout.table[:, kernels.SPREAD]
    first = int((np.cumsum(counts) - counts)[s])
    part = slice(first, first + int(counts[s]))
    if hasattr(plan, "batch"):
        return plan.batch.points[1, part].numpy(), plan.batch.directions[1, part].numpy()
    shape = (backend._world.n_envs, plan.n_rays, 3)
    arrays = (array[: math.prod(shape)].reshape(shape) for array in (backend._points, backend._directions))
    return tuple(array[1, part] for array in arrays)


def test_hits_become_distances_normals_bodies_and_intensities(groups):
    """Each beam reads the nearest hit along its ray, or nothing beyond its range."""
    for group in groups:
        backend, world, model = group.backend, group.world, group.world.model
        out = group.truth.clone()
        backend.update(out)
        row, sensor = backend.layout.table[0], group.sensors[0]
        points, directions = aimed_rays(backend, 0)
        seen = np.setdiff1d(np.arange(model.nbody), [row[kernels.BODY]])
        assert len(seen) > 5
        hits = 0
        for i in range(sensor._rig.n_beams):
            found = nearest_hit(model, world, 1, points[i], directions[i], row[kernels.BODY])
            near = found is not None and found[0] <= sensor.options.max_range
            got = out[row[kernels.DISTANCES] + i, 1].item()
            body = out[row[kernels.BODY_IDS] + i, 1].item()
            normal = out[row[kernels.NORMALS] + 3 * i : row[kernels.NORMALS] + 3 * i + 3, 1].double().numpy()
            brightness = out[row[kernels.INTENSITY] + i, 1].item()
            if not near:
                assert (got, body, brightness) == (math.inf, -1.0, 0.0)
                assert not normal.any()
                continue
            distance, geom, surface = found
            hits += 1
            assert got == pytest.approx(distance, rel=1e-4, abs=1e-4)
            assert body == model.geom_bodyid[geom]
            rotation = world.bind("xmat")[1, row[kernels.BODY]].double().numpy().reshape(3, 3)
            np.testing.assert_allclose(rotation @ normal, surface, atol=1e-3)
            cosine = abs(float(directions[i] @ surface))
            power = cosine * model.geom_rgba[geom, :3].mean() / distance**2
            assert brightness == pytest.approx(power, rel=2e-3, abs=1e-3)
        assert hits > 50


def nearest_hit(model, world, env, point, direction, excluded):
    """Return distance, geom and normal of MuJoCo's own ray, or None without a hit."""
    import mujoco

    data = mujoco.MjData(model)
    data.qpos[:] = world.bind("qpos")[env].double().numpy()
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    geom, normal = np.zeros(1, np.int32), np.zeros(3)
    unit = np.asarray(direction, np.float64)
    distance = mujoco.mj_ray(model, data, np.asarray(point, np.float64), unit, None, 1, int(excluded), geom, normal)
    return None if distance < 0 else (distance, int(geom[0]), normal)


def test_noise_grows_with_range_and_returns_are_lost(groups, signal):
    growth, dropout = (np.random.default_rng(5).uniform(0, 0.3, (3, 3)).astype(np.float32) for _ in range(2))
    growth[1], dropout[:, 2] = 0.0, 0.0
    noise_keys, loss_keys = random_keys(groups[0])
    draw = groups[0].draw.numpy()
    expected = signal.copy()
    for s, row in enumerate(groups[0].backend.layout.table):
        for i in range(row[kernels.BEAMS]):
            column, beam = row[kernels.DISTANCES] + i, row[kernels.FIRST_BEAM] + i
            noise, _ = normals(*threefry(noise_keys[beam], *draw))
            uniform = (threefry(loss_keys[beam], *draw)[0] >> np.uint32(8)) / 2**24
            hit = np.isfinite(signal[column])
            expected[column, hit] += growth[s, hit] * signal[column, hit] * noise[hit]
            expected[column, uniform < dropout[s]] = np.inf
    assert np.isinf(expected).sum() > np.isinf(signal).sum()
    for group in groups:
        for name, values in (("noise_per_metre", growth), ("ray_dropout", dropout)):
            group.parameters[name].copy_(torch.from_numpy(values))
        data = torch.from_numpy(signal.copy())
        group.backend.roughen(data)
        np.testing.assert_array_equal(data.numpy(), expected)


def test_beams_that_were_not_scanned_are_held(groups, signal):
    held = np.random.default_rng(6).normal(size=signal.shape).astype(np.float32)
    expected, remembered = signal.copy(), held.copy()
    layout = groups[0].backend.layout
    for s, row in enumerate(layout.table):
        if not row[kernels.SCANS]:
            continue
        distances = slice(row[kernels.DISTANCES], row[kernels.DISTANCES] + row[kernels.BEAMS])
        for env in range(3):
            fired = groups[0].backend.fired_beams(s, env)
            assert 0 < fired.sum() < len(fired)
            expected[distances, env] = np.where(fired, signal[distances, env], held[distances, env])
            remembered[distances, env] = expected[distances, env]
    for group in groups:
        state = group.state("held")
        before = state.clone()
        state.copy_(torch.from_numpy(held))
        data = torch.from_numpy(signal.copy())
        group.backend.hold(data)
        np.testing.assert_array_equal(data.numpy(), expected)
        np.testing.assert_array_equal(state.numpy(), remembered)
        state.copy_(before)


def test_readings_follow_from_the_intermediate_columns(groups, signal):
    """Distances within the limits, points along the rays in both frames, and fields only where there is a return."""
    outs = []
    for group in groups:
        out = torch.full((group.n_returns, group.n_envs), 9.0)
        group.backend.post_process(torch.from_numpy(signal), out)
        outs.append(out.numpy())
    np.testing.assert_array_equal(outs[0], outs[1])
    group = groups[0]
    for s, sensor in enumerate(group.sensors):
        rig, options, row = sensor._rig, sensor.options, group.backend.layout.table[s]
        reading = outs[0][group.return_slices[s]]
        n, start = rig.n_beams, 0
        distances = signal[row[kernels.DISTANCES] : row[kernels.DISTANCES] + n]
        hit = distances < np.inf
        no_hit = options.max_range if options.no_hit is None else options.no_hit
        clamped = np.where(hit, np.clip(distances, options.min_range, options.max_range), no_hit)
        for name, width in rig.widths.items():
            got = reading[start : start + width * n].reshape(n, width, -1)
            start += width * n
            if name == "distances":
                np.testing.assert_allclose(got[:, 0], clamped, rtol=1e-6)
            elif name == "points":
                along = np.where(hit | (no_hit >= 0), clamped, np.nan)
                np.testing.assert_allclose(got, expected_points(rig, sensor, row, signal, along), rtol=1e-4, atol=1e-4)
            else:
                first = row[FIELDS[name]]
                values = signal[first : first + width * n].reshape(n, width, -1)
                np.testing.assert_array_equal(got, np.where(hit[:, None], values, MISSING[name]))


def expected_points(rig, sensor, row, signal, along):
    """Return points (beams, 3, B) at distances ``along`` (beams, B), in the frame of the options."""
    directions = rig.pattern.rays()[1]
    if not rig.in_world:
        return directions[:, :, None] * along[:, None]
    mount = matrix_of_euler(sensor.options.euler)
    local = (directions @ mount.T)[:, :, None] * along[:, None]
    poses = signal[row[kernels.POSES] :][: rig.n_slots * kernels.POSE].reshape(rig.n_slots, kernels.POSE, -1)
    poses = poses[np.arange(rig.n_beams) % rig.n_slots]
    rotations = poses[:, 3:].reshape(rig.n_beams, 3, 3, -1)
    return poses[:, :3] + np.einsum("nijb,njb->nib", rotations, local)
