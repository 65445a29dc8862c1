"""Numba and Warp kernels of the robot sensors, both against plain NumPy references on random input.

The pairs are ``receive``, ``geodetic``, ``odometry`` and ``discharge``; Warp runs on its CPU device. Sensors whose GPU
backend uses torch are compared through their backends, in test_graph_sensors.py.
"""

import math

import numpy as np
import pytest
import torch
from reference import threefry

from sensorium.sensors.robot import kernels
from sensorium.sensors.robot.wgs84 import cartesian

wp = pytest.importorskip("warp")
from sensorium.sensors.robot import warp_kernels  # noqa: E402

S, B = 3, 7
DT = 0.02
EVERY_ENV = np.ones(B, bool)
SOME_ENVS = np.arange(B) % 3 != 1


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def launch(kernel, *inputs):
    """Run a Warp kernel over (sensors, envs) on arrays, which it changes in place."""
    arrays = [wp.from_torch(torch.from_numpy(x)) if isinstance(x, np.ndarray) else x for x in inputs]
    wp.launch(kernel, dim=(S, B), inputs=arrays, device="cpu")


# -- GPS ---------------------------------------------------------------------------------------------------------------


def reference_outage(outage, keys, loss_rate, reacquire_time, visible, draw, advance):
    """Count outages down, lose fixes with probability 1 - exp(-rate dt), and stay without a fix while invisible."""
    outage = outage.copy()
    for s, b in np.ndindex(S, B):
        if advance:
            outage[s, b] = outage[s, b] - DT if outage[s, b] > 1.000001 * DT else 0.0
            word, _ = threefry(keys[s], draw[0, b], draw[1, b])
            uniform = (int(word) >> 8) / 2**24
            if outage[s, b] == 0 and uniform < 1 - math.exp(-float(loss_rate[s, b]) * DT):
                outage[s, b] = reacquire_time[s, b]
        if not visible[s, b]:
            outage[s, b] = max(reacquire_time[s, b], DT)
    return outage


def test_receive_loses_and_finds_fixes(rng):
    keys = rng.integers(0, 2**32, (S, 2), dtype=np.uint32)
    loss_rate = rng.uniform(0, 40, (S, B)).astype(np.float32)
    reacquire_time = rng.uniform(0, 0.1, (S, B)).astype(np.float32)
    visible = (rng.random((S, B)) < 0.8).astype(np.float32)
    chance = -np.expm1(-loss_rate.astype(np.float64) * DT)
    expected, numba, warp = (np.zeros((S, B)) for _ in range(3))
    outages = 0
    for _ in range(1, 60):
        draw = rng.integers(0, 2**32, (2, B), dtype=np.uint32)
        expected = reference_outage(expected, keys, loss_rate, reacquire_time, visible, draw, True)
        kernels.receive(numba, keys, loss_rate, reacquire_time, visible, DT, draw, True)
        words, signed = draw.view(np.int32), keys.view(np.int32)
        launch(warp_kernels.receive, signed, chance, reacquire_time, visible, DT, words, False, EVERY_ENV, warp)
        np.testing.assert_allclose(numba, expected, atol=1e-12)
        np.testing.assert_allclose(warp, expected, atol=1e-12)
        outages += int(((expected > 0) & (visible > 0)).sum())
    assert outages > 100

    after = np.where(SOME_ENVS, reference_outage(0 * warp, keys, loss_rate, reacquire_time, visible, draw, False), warp)
    launch(warp_kernels.receive, signed, chance, reacquire_time, visible, DT, words, True, SOME_ENVS, warp)
    np.testing.assert_allclose(warp, after, atol=1e-12)
    restarted = np.where(SOME_ENVS, 0.0, numba)
    kernels.receive(restarted, keys, loss_rate, reacquire_time, visible, DT, draw, False)
    np.testing.assert_allclose(restarted[:, SOME_ENVS], after[:, SOME_ENVS], atol=1e-12)


def test_geodetic_positions_are_those_of_the_ellipsoid(rng):
    """The Cartesian position of the result is the origin's plus east, north and up, to a micrometre."""
    origins = np.stack([rng.uniform(-90, 90, S), rng.uniform(-180, 180, S), rng.uniform(-100, 5000, S)], axis=1)
    lat, lon = np.radians(origins[:, 0]), np.radians(origins[:, 1])
    table = np.zeros((S, 7))
    table[:, :4] = np.stack([np.sin(lat), np.cos(lat), np.sin(lon), np.cos(lon)], axis=1)
    table[:, 4:] = [cartesian(*origin) for origin in origins]
    data = rng.normal(scale=3000.0, size=(6 * S, B))
    due, rows = np.ones((S, B), bool), np.arange(S)
    due[1, ::2] = False
    outage = np.where(rng.random((S, B)) < 0.3, 1.0, 0.0)
    before = rng.normal(size=(7 * S, B))
    for held in (False, True):
        numba, warp = before.copy(), before.copy()
        kernels.geodetic(data, table, outage, held, due, rows, numba)
        launch(warp_kernels.geodetic, data, table, outage, held, due, rows.astype(np.int32), warp)
        for out in (numba, warp):
            for s, b in np.ndindex(S, B):
                got, kept = out[7 * s : 7 * s + 7, b], before[7 * s : 7 * s + 7, b]
                if held and not due[s, b]:
                    assert (got == kept).all()
                    continue
                assert got[6] == (outage[s, b] == 0)
                if held and outage[s, b] > 0:
                    assert (got[:6] == kept[:6]).all()
                    continue
                east, north, up = data[6 * s : 6 * s + 3, b]
                basis = np.array(
                    [
                        (-math.sin(lon[s]), math.cos(lon[s]), 0.0),
                        (-math.sin(lat[s]) * math.cos(lon[s]), -math.sin(lat[s]) * math.sin(lon[s]), math.cos(lat[s])),
                        (math.cos(lat[s]) * math.cos(lon[s]), math.cos(lat[s]) * math.sin(lon[s]), math.sin(lat[s])),
                    ]
                )
                position = table[s, 4:] + np.array([east, north, up]) @ basis
                np.testing.assert_allclose(cartesian(*got[:3]), position, atol=1e-6)
                assert (got[3:6] == data[6 * s + 3 : 6 * s + 6, b]).all()


# -- wheel odometry ----------------------------------------------------------------------------------------------------


def test_odometry_adds_arcs(rng):
    """Straight lines, arcs and turns on the spot; true and counted angles; a step, and a reset of some envs."""
    first = np.array([0, 2, 4, 8])
    n = first[-1]
    wheels = np.stack([rng.permutation(n), rng.permutation(n)], axis=1)
    shares = np.zeros((n, 2))
    for s in range(S):
        middle = (first[s] + first[s + 1]) // 2
        shares[first[s] : middle, 0] = rng.choice([-1, 1]) / (middle - first[s])
        shares[middle : first[s + 1], 1] = 1 / (first[s + 1] - middle)
    geometry = np.array([(0.1, 0.4, 0.0), (0.2, 0.5, 0.05), (0.05, 0.3, 0.0)])
    errors = rng.uniform(-0.1, 0.1, (3, S, B)).astype(np.float32)
    qpos, qvel = rng.normal(size=(B, n)), rng.normal(size=(B, n))
    before = rng.normal(size=(B, n, 2))
    poses = rng.normal(size=(B, S, 2, 3))
    before[0], before[1, :, :] = qpos[0, wheels[:, 0], None] - 1e-7, qpos[1, wheels[:, 0], None]  # straight; at rest

    def expected(b, s, is_reset):
        radius, track, tick = geometry[s]
        mine = slice(first[s], first[s + 1])
        angles = qpos[b, wheels[mine, 0]]
        counts = np.floor(angles / tick) * tick if tick else angles
        turned = np.stack([angles, counts], axis=1) - before[b, mine]
        if is_reset:
            turned = np.stack([qvel[b, wheels[mine, 1]] * DT] * 2, axis=1)
        rows, pose = [], poses[b, s].copy() * (0 if is_reset else 1)
        for branch in range(2):
            left, right = radius * (shares[mine].T @ turned[:, branch])
            if branch == 1:
                left, right = left * (1 + errors[0, s, b]), right * (1 + errors[1, s, b])
            distance = (left + right) / 2
            turn = (right - left) / (track * (1 + errors[2, s, b] if branch else 1))
            if not is_reset:
                chord = distance if turn == 0 else distance * math.sin(turn / 2) / (turn / 2)
                heading = pose[branch, 2] + turn / 2
                pose[branch] += chord * math.cos(heading), chord * math.sin(heading), turn
            rows.append([*pose[branch], distance / DT, turn / DT])
        return np.array(rows)

    def check(branches, is_reset, envs):
        for b in np.flatnonzero(envs):
            for s in range(S):
                got = np.array([branch[5 * s : 5 * s + 5, b] for branch in branches])
                np.testing.assert_allclose(got, expected(b, s, is_reset), rtol=2e-6, atol=2e-6)

    for is_reset, envs in ((False, EVERY_ENV), (True, SOME_ENVS)):
        numba_state, warp_state = (before.copy(), poses.copy()), (before.copy(), poses.copy())
        if is_reset:
            numba_state[1][SOME_ENVS] = 0.0  # the backend's reset
        numba, warp = ([np.full((5 * S, B), 9.0, np.float32) for _ in range(2)] for _ in range(2))
        sizes = (geometry, errors, DT)
        kernels.odometry(qpos, qvel, wheels, shares, first, *numba_state, *sizes, not is_reset, *numba)
        ints = wheels.astype(np.int32), shares, first.astype(np.int32)
        sizes = (geometry, errors, wp.float64(DT))
        launch(warp_kernels.odometry, qpos, qvel, *ints, *warp_state, *sizes, is_reset, envs, *warp)
        check(numba, is_reset, envs)
        check(warp, is_reset, envs)
        for one, other in zip(numba_state, warp_state, strict=True):
            np.testing.assert_allclose(other[envs], one[envs], atol=1e-14)
        assert (warp[0][:, ~envs] == 9.0).all()
        assert (warp_state[1][~envs] == poses[~envs]).all()


# -- battery -----------------------------------------------------------------------------------------------------------


def test_discharge_draws_what_the_actuators_use(rng):
    """Driving, braking, overload, an empty battery and one without resistance; a step, and a reset of some envs."""
    first = np.array([0, 1, 3, 6])
    actuators = rng.permutation(6)
    numbers = np.array(  # efficiency, regeneration, holding loss, idle power, capacity, internal resistance
        [(0.8, 0.0, 0.0, 5.0, 3600.0, 0.05), (1.0, 0.5, 0.1, 0.0, 10.0, 0.0), (0.5, 1.0, 0.02, 300.0, 100.0, 1.0)]
    )
    curves = np.array([((0.0, 18.0), (0.5, 22.0), (1.0, 25.0)), ((0.2, 10.0), (0.4, 11.0), (9.0, 12.0))])[[0, 1, 0]]
    force, speed = rng.normal(scale=5.0, size=(B, 6)), rng.normal(scale=3.0, size=(B, 6))
    before = rng.normal(scale=3.0, size=(B, 6))
    state = np.stack([rng.uniform(0, 1, (B, S)), rng.uniform(0, 100, (B, S))], axis=-1)
    state[0, :, 0] = 0.0
    initial = rng.uniform(0, 1, (S, B)).astype(np.float32)

    def electric(pull, turn, efficiency, regeneration, loss):
        power = pull * turn
        return float(np.sum(loss * pull**2 + np.where(power > 0, power / efficiency, power * regeneration)))

    def draw(power, voltage, resistance):
        """Return the power that can be delivered, and the current at which P = (U - R I) I."""
        if resistance == 0:
            return power, power / voltage
        power = min(power, voltage**2 / (4 * resistance))
        current = voltage / (2 * resistance) - math.sqrt((voltage / (2 * resistance)) ** 2 - power / resistance)
        return power, current

    def expected(b, s, is_reset):
        efficiency, regeneration, loss, idle, capacity, resistance = numbers[s]
        mine = slice(first[s], first[s + 1])
        pull, turn = force[b, actuators[mine]], speed[b, actuators[mine]]
        charge, energy = (float(initial[s, b]), 0.0) if is_reset else state[b, s]
        if not is_reset:
            mean = idle + electric(pull, (turn + before[b, mine]) / 2, efficiency, regeneration, loss)
            power, current = draw(mean, np.interp(charge, *curves[s].T), resistance)
            charge = min(max(charge - current * DT / capacity, 0.0), 1.0)
            energy += power * DT
        voltage = np.interp(charge, *curves[s].T)
        power, current = draw(idle + electric(pull, turn, efficiency, regeneration, loss), voltage, resistance)
        return [charge, voltage - resistance * current, current, power, energy]

    for is_reset, envs in ((False, EVERY_ENV), (True, SOME_ENVS)):
        numba_state, warp_state = (before.copy(), state.copy()), (before.copy(), state.copy())
        if is_reset:  # the backend's reset
            numba_state[1][SOME_ENVS] = 0.0
            numba_state[1][SOME_ENVS, :, 0] = initial.T[SOME_ENVS]
        numba, warp = (np.full((5 * S, B), 9.0, np.float32) for _ in range(2))
        kernels.discharge(
            force, speed, actuators, first, numbers, curves, *numba_state, DT, not is_reset, numba
        )  # fmt: skip
        ints = actuators.astype(np.int32), first.astype(np.int32)
        tail = (*warp_state, wp.float64(DT), is_reset, envs, warp)
        launch(warp_kernels.discharge, force, speed, *ints, numbers, curves, initial, *tail)
        for b in np.flatnonzero(envs):
            for s in range(S):
                for out in (numba, warp):
                    np.testing.assert_allclose(
                        out[5 * s : 5 * s + 5, b], expected(b, s, is_reset), rtol=2e-6, atol=2e-6
                    )
        for one, other in zip(numba_state, warp_state, strict=True):
            np.testing.assert_allclose(other[envs], one[envs], rtol=1e-12, atol=1e-12)
        assert (warp[:, ~envs] == 9.0).all()
