# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
"""Numba kernels of the robot sensors: one call per step for all sensors of a class and all envs.

``sensed`` (B, n) is the engine's sensor data, and ``at`` holds indices into its rows. ``data`` and ``out`` are
(columns, B). Every element is computed by itself, without reductions over envs, so that all batch sizes give the same
bits. The Warp counterparts are in ``warp_kernels.py``. Backends import this module when they are built, because
importing Numba takes about a second.
"""

import math

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.pipeline.kernels import words
from sensorium.sensors.robot.atmosphere import (
    EARTH_RADIUS,
    EXPONENT,
    LAPSE_RATE,
    STANDARD_PRESSURE,
    STANDARD_TEMPERATURE,
    TROPOPAUSE,
)
from sensorium.sensors.robot.wgs84 import ECCENTRICITY_2, SEMI_MAJOR

_U = np.uint32
_BIN24 = 2.0**-24


# -- joints and wrenches -----------------------------------------------------------------------------------------------


@kernel
def joint_torques(actuator, passive, constraint, dofs, shares, out):
    """Sum the generalised forces of ``dofs`` (columns,), weighted by ``shares`` (columns, 3)."""
    for c in range(out.shape[0]):
        d = dofs[c]
        for b in range(out.shape[1]):
            out[c, b] = shares[c, 0] * actuator[b, d] + shares[c, 1] * passive[b, d] + shares[c, 2] * constraint[b, d]


@kernel
def subtract_two(data, rows, weights, out):
    """Subtract from one row of ``data`` two weighted others: ``rows`` (returns, 3), ``weights`` (returns, 2)."""
    for r in range(out.shape[0]):
        i, j, k = rows[r, 0], rows[r, 1], rows[r, 2]
        for b in range(out.shape[1]):
            out[r, b] = data[i, b] - weights[r, 0] * data[j, b] - weights[r, 1] * data[k, b]


# -- pose --------------------------------------------------------------------------------------------------------------


@kernel
def normalise(data, out):
    """Copy poses of 13 rows each, with their quaternions (rows 3 to 6) normalised."""
    for first in range(0, data.shape[0], 13):
        for row in range(first, first + 13):
            for b in range(data.shape[1]):
                out[row, b] = data[row, b]
        for b in range(data.shape[1]):
            w, x, y, z = data[first + 3, b], data[first + 4, b], data[first + 5, b], data[first + 6, b]
            norm = np.sqrt(w * w + x * x + y * y + z * z)
            for row in range(first + 3, first + 7):
                out[row, b] = data[row, b] / norm


# -- air and magnetic field --------------------------------------------------------------------------------------------


@kernel
def pressures(sensed, at, origin, sea_pressure, sea_temperature, out):
    """Compute the air pressure at a height, in an atmosphere whose temperature decreases with geopotential height."""
    for c in range(out.shape[0]):
        for b in range(out.shape[1]):
            geometric = sensed[b, at[c]] + origin[c]
            height = min(EARTH_RADIUS * geometric / (EARTH_RADIUS + geometric), TROPOPAUSE)
            out[c, b] = sea_pressure[c] * (1 - LAPSE_RATE * height / sea_temperature[c]) ** EXPONENT


@kernel
def pressure_altitudes(data, out):
    """Copy the pressures, and compute the altitudes at which the standard atmosphere has them."""
    for c in range(data.shape[0]):
        for b in range(data.shape[1]):
            pressure = data[c, b]
            ratio = max(pressure, 1.0) / STANDARD_PRESSURE
            out[2 * c, b] = pressure
            out[2 * c + 1, b] = STANDARD_TEMPERATURE / LAPSE_RATE * (1 - ratio ** (1 / EXPONENT))


@kernel
def headings(data, is_levelled, declination, out):
    """Copy fields, and compute headings. Rows of a sensor: field and direction of up, in its own frame."""
    for s in range(len(is_levelled)):
        for b in range(data.shape[1]):
            bx, by, bz = data[6 * s, b], data[6 * s + 1, b], data[6 * s + 2, b]
            ux, uy, uz = 0.0, 0.0, 1.0
            if is_levelled[s]:
                ux, uy, uz = data[6 * s + 3, b], data[6 * s + 4, b], data[6 * s + 5, b]
            east = uz * by - uy * bz  # up · (x × field)
            north = bx - ux * (bx * ux + by * uy + bz * uz)
            angle = math.atan2(east, north) + declination[s, b]
            out[4 * s, b], out[4 * s + 1, b], out[4 * s + 2, b] = bx, by, bz
            out[4 * s + 3, b] = math.atan2(math.sin(angle), math.cos(angle))


# -- optical flow ------------------------------------------------------------------------------------------------------


@kernel
def flows(sensed, at, turning, out):
    """Compute the flow of the ground; ``at`` (sensors, 3): velocity, angular velocity, distance."""
    for s in range(len(at)):
        velocity, rate, ranger = at[s, 0], at[s, 1], at[s, 2]
        for b in range(out.shape[1]):
            distance = sensed[b, ranger]
            x, y = 0.0, 0.0
            if distance > 0:
                x = turning[s] * sensed[b, rate + 1] - sensed[b, velocity] / distance
                y = -turning[s] * sensed[b, rate] - sensed[b, velocity + 1] / distance
            # without ground the distance is infinite, which noise does not change
            out[3 * s, b], out[3 * s + 1, b], out[3 * s + 2, b] = x, y, distance if distance > 0 else np.inf


@kernel
def flow_qualities(data, limits, out):
    """Check flow and distance against ``limits`` (sensors, 3): min range, max range, max flow."""
    for s in range(len(limits)):
        min_range, max_range, max_flow = limits[s, 0], limits[s, 1], limits[s, 2]
        for b in range(data.shape[1]):
            x, y, distance = data[3 * s, b], data[3 * s + 1, b], data[3 * s + 2, b]
            good = min_range <= distance and distance <= max_range and abs(x) <= max_flow and abs(y) <= max_flow
            out[4 * s, b] = x if good else 0.0
            out[4 * s + 1, b] = y if good else 0.0
            out[4 * s + 2, b] = min(max(distance, min_range), max_range)
            out[4 * s + 3, b] = 1.0 if good else 0.0


# -- satellite navigation ----------------------------------------------------------------------------------------------


@kernel
def positions(sensed, at, out):
    """Copy positions and velocities; ``at`` (sensors, 2): their first elements."""
    for s in range(len(at)):
        for b in range(out.shape[1]):
            for i in range(3):
                out[6 * s + i, b] = sensed[b, at[s, 0] + i]
                out[6 * s + 3 + i, b] = sensed[b, at[s, 1] + i]


@kernel
def receive(outage, keys, loss_rate, reacquire_time, visible, dt, draw, advance):
    """Lose fixes at random, and count down ``outage`` (sensors, B), the seconds until the next fix."""
    for s in range(len(outage)):
        for b in range(outage.shape[1]):
            if advance:
                outage[s, b] = outage[s, b] - dt if outage[s, b] > 1.000001 * dt else 0.0
                w0, _ = words(keys[s, 0], keys[s, 1], draw, b, _U(0))
                if outage[s, b] == 0 and (w0 >> _U(8)) * _BIN24 < -math.expm1(-loss_rate[s, b] * dt):
                    outage[s, b] = reacquire_time[s, b]
            if visible[s, b] == 0:
                outage[s, b] = max(reacquire_time[s, b], dt)


@kernel
def geodetic(data, origin, outage, held, due, rows, out):
    """Convert positions in the tangent plane (east, north, up) to latitude and longitude (degrees) and height.

    ``origin`` (sensors, 7): sine and cosine of latitude and of longitude, and the origin's Cartesian position. With
    ``held``, ``out`` keeps its values where no sample is ``due`` (rows ``rows`` of all sensors of the scene, B), and
    all but the fix where ``outage`` > 0.
    """
    for s in range(len(origin)):
        sin_lat, cos_lat, sin_lon, cos_lon = origin[s, 0], origin[s, 1], origin[s, 2], origin[s, 3]
        for b in range(data.shape[1]):
            if held and not due[rows[s], b]:
                continue
            out[7 * s + 6, b] = 0.0 if outage[s, b] > 0 else 1.0
            if held and outage[s, b] > 0:
                continue
            east, north, up = data[6 * s, b], data[6 * s + 1, b], data[6 * s + 2, b]
            out_of_axis = up * cos_lat - north * sin_lat
            x = origin[s, 4] + out_of_axis * cos_lon - east * sin_lon
            y = origin[s, 5] + out_of_axis * sin_lon + east * cos_lon
            z = origin[s, 6] + north * cos_lat + up * sin_lat
            radius = math.hypot(x, y)
            lat = math.atan2(z, radius * (1 - ECCENTRICITY_2))
            for _ in range(6):  # each iteration gains more than two digits near the ground
                sine = math.sin(lat)
                normal = SEMI_MAJOR / math.sqrt(1 - ECCENTRICITY_2 * sine * sine)
                lat = math.atan2(z + ECCENTRICITY_2 * normal * sine, radius)
            sine, cosine = math.sin(lat), math.cos(lat)
            normal = SEMI_MAJOR / math.sqrt(1 - ECCENTRICITY_2 * sine * sine)
            out[7 * s, b] = math.degrees(lat)
            out[7 * s + 1, b] = math.degrees(math.atan2(y, x))
            # along the ellipsoid's normal, which is exact at the poles, too
            out[7 * s + 2, b] = radius * cosine + z * sine - SEMI_MAJOR * SEMI_MAJOR / normal
            for i in range(3):
                out[7 * s + 3 + i, b] = data[6 * s + 3 + i, b]


# -- wheels ------------------------------------------------------------------------------------------------------------


@helper
def _advance(pose, distance, turn):
    """Move a pose (x, y, yaw) along an arc."""
    half = turn / 2
    chord = distance * (math.sin(half) / half if abs(half) > 1e-6 else 1 - half * half / 6)
    pose[0] += chord * math.cos(pose[2] + half)
    pose[1] += chord * math.sin(pose[2] + half)
    pose[2] += turn


@kernel
def odometry(qpos, qvel, wheels, shares, first, before, pose, geometry, errors, dt, advance, truth, measured):
    """Advance the dead reckoning of both branches by the rotation of each wheel since the last step.

    ``wheels`` (n, 2): indices of angles in ``qpos`` and of rates in ``qvel``; sensor s has those from ``first[s]`` to
    ``first[s + 1]``. ``shares`` (n, 2): their shares in the left and in the right side. ``before`` (B, n, 2): angles
    of the last step, true and as counted by the encoder. Without ``advance`` no time has passed since, and speeds come
    from the rates instead. ``pose`` (B, sensors, 2, 3): x, y and yaw of ground truth and measured branch. ``geometry``
    (sensors, 3): radius, track, encoder step. ``errors`` (3, sensors, B): relative errors of the left radius, the right
    radius and the track.
    """
    moved = np.zeros((2, 2))
    for b in range(truth.shape[1]):
        for s in range(len(geometry)):
            radius, track, tick = geometry[s, 0], geometry[s, 1], geometry[s, 2]
            moved[:] = 0.0
            for w in range(first[s], first[s + 1]):
                angle = qpos[b, wheels[w, 0]]
                counted = math.floor(angle / tick) * tick if tick > 0 else angle
                turned = angle - before[b, w, 0] if advance else qvel[b, wheels[w, 1]] * dt
                turned_counts = counted - before[b, w, 1] if advance else turned
                for side in range(2):
                    moved[0, side] += shares[w, side] * turned
                    moved[1, side] += shares[w, side] * turned_counts
                before[b, w, 0], before[b, w, 1] = angle, counted
            for branch in range(2):
                out = truth if branch == 0 else measured
                left, right, width = moved[branch, 0] * radius, moved[branch, 1] * radius, track
                if branch == 1:
                    left *= 1 + errors[0, s, b]
                    right *= 1 + errors[1, s, b]
                    width *= 1 + errors[2, s, b]
                distance, turn = (left + right) / 2, (right - left) / width
                if advance:
                    _advance(pose[b, s, branch], distance, turn)
                for i in range(3):
                    out[5 * s + i, b] = pose[b, s, branch, i]
                out[5 * s + 3, b], out[5 * s + 4, b] = distance / dt, turn / dt


# -- battery -----------------------------------------------------------------------------------------------------------


@kernel
def _interpolate(x, curve):
    """Interpolate a piecewise linear curve, rows (x, y) with increasing x; constant beyond its ends."""
    if x <= curve[0, 0]:
        return curve[0, 1]
    for i in range(1, len(curve)):
        if x < curve[i, 0]:
            part = (x - curve[i - 1, 0]) / (curve[i, 0] - curve[i - 1, 0])
            return curve[i - 1, 1] + part * (curve[i, 1] - curve[i - 1, 1])
    return curve[-1, 1]


@kernel
def discharge(force, speed, actuators, first, numbers, curves, before, state, dt, advance, out):
    """Compute the electric power of the actuators, and discharge the batteries by it.

    ``actuators`` (n,): ids; sensor s has those from ``first[s]`` to ``first[s + 1]``. ``numbers`` (sensors, 6):
    efficiency, regeneration, holding loss, idle power, capacity in coulomb, internal resistance. ``curves`` (sensors,
    points, 2): open-circuit voltage over charge. ``before`` (B, n): speeds of the last step. ``state`` (B, sensors,
    2): charge, energy drawn.
    """
    for s in range(len(numbers)):
        resistance = numbers[s, 5]
        for b in range(out.shape[1]):
            power = mean = numbers[s, 3]
            for n in range(first[s], first[s + 1]):
                pull, turn = force[b, actuators[n]], speed[b, actuators[n]]
                power += _electric(pull, turn, numbers[s])
                # controls are constant during a step: forces change little, and speeds change linearly
                mean += _electric(pull, (before[b, n] + turn) / 2, numbers[s])
                before[b, n] = turn
            if advance:
                voltage = _interpolate(state[b, s, 0], curves[s])
                mean = _deliverable(mean, voltage, resistance)
                current = _current(mean, voltage, resistance)
                state[b, s, 0] = min(max(state[b, s, 0] - current * dt / numbers[s, 4], 0.0), 1.0)
                state[b, s, 1] += mean * dt
            voltage = _interpolate(state[b, s, 0], curves[s])
            power = _deliverable(power, voltage, resistance)
            current = _current(power, voltage, resistance)
            out[5 * s, b] = state[b, s, 0]
            out[5 * s + 1, b] = voltage - resistance * current
            out[5 * s + 2, b] = current
            out[5 * s + 3, b] = power
            out[5 * s + 4, b] = state[b, s, 1]


@kernel
def _electric(force, speed, numbers):
    """Return the electric power of one actuator."""
    mechanical = force * speed
    return numbers[2] * force * force + (mechanical / numbers[0] if mechanical > 0 else mechanical * numbers[1])


@kernel
def _deliverable(power, voltage, resistance):
    """Limit a power to what a source of this open-circuit voltage and internal resistance can deliver."""
    return min(power, voltage * voltage / (4 * resistance)) if resistance > 0 else power


@kernel
def _current(power, voltage, resistance):
    """Return the current at which a source of this open-circuit voltage and resistance delivers a power."""
    if resistance == 0:
        return power / voltage
    return (voltage - math.sqrt(max(voltage * voltage - 4 * resistance * power, 0.0))) / (2 * resistance)
