"""Warp kernels of the robot sensors: the GPU counterparts of ``kernels.py``, launched in a CUDA graph.

Arguments are those of ``kernels.py``. The engine's fields may have any precision; arithmetic and state are float64.
``envs`` is a mask (B,): a reset (``is_reset``) restarts these envs and changes no others; in a step it is True
everywhere. One thread handles one sensor in one env.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

from typing import Any

import warp as wp

from sensorium.pipeline.warp_draws import word
from sensorium.sensors.robot.wgs84 import ECCENTRICITY_2, SEMI_MAJOR
from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_E2, _A = wp.constant(wp.float64(ECCENTRICITY_2)), wp.constant(wp.float64(SEMI_MAJOR))
_ZERO, _ONE, _TWO = (wp.constant(wp.float64(x)) for x in (0.0, 1.0, 2.0))
_DEGREES = wp.constant(wp.float64(57.29577951308232))
_BIN24 = wp.constant(wp.float64(2.0**-24))

_ints, _mask = wp.array(dtype=wp.int32), wp.array(dtype=wp.bool)
_singles = wp.array2d(dtype=wp.float32)
_doubles, _doubles3, _doubles4 = (wp.array(dtype=wp.float64, ndim=ndim) for ndim in (2, 3, 4))


# -- satellite navigation ----------------------------------------------------------------------------------------------


@wp.kernel
def receive(
    keys: wp.array2d(dtype=wp.int32),
    chance: _doubles,
    reacquire_time: _singles,
    visible: _singles,
    dt: wp.float64,
    draw: wp.array2d(dtype=wp.int32),
    is_reset: wp.bool,
    envs: _mask,
    outage: _doubles,
):
    """Lose fixes with probability ``chance`` (sensors, B) per step, and count down ``outage`` (sensors, B)."""
    s, b = wp.tid()
    if not envs[b]:
        return
    left = outage[s, b]
    if is_reset:
        left = _ZERO
    else:
        left = wp.where(left > wp.float64(1.000001) * dt, left - dt, _ZERO)
        drawn = word(keys[s, 0], keys[s, 1], draw[0, b], draw[1, b]) >> wp.uint32(8)
        if left == _ZERO and wp.float64(wp.int32(drawn)) * _BIN24 < chance[s, b]:
            left = wp.float64(reacquire_time[s, b])
    if visible[s, b] == 0.0:
        left = wp.max(wp.float64(reacquire_time[s, b]), dt)
    outage[s, b] = left


@wp.kernel
def geodetic(
    data: _doubles,
    origin: _doubles,
    outage: _doubles,
    held: wp.bool,
    due: wp.array2d(dtype=wp.bool),
    rows: _ints,
    out: _doubles,
):
    """Convert positions in the tangent plane (east, north, up) to latitude and longitude (degrees) and height."""
    s, b = wp.tid()
    lost = outage[s, b] > _ZERO
    if held and not due[rows[s], b]:
        return
    out[7 * s + 6, b] = wp.where(lost, _ZERO, _ONE)
    if held and lost:
        return
    sin_lat = origin[s, 0]
    cos_lat = origin[s, 1]
    sin_lon = origin[s, 2]
    cos_lon = origin[s, 3]
    east = data[6 * s, b]
    north = data[6 * s + 1, b]
    up = data[6 * s + 2, b]
    out_of_axis = up * cos_lat - north * sin_lat
    x = origin[s, 4] + out_of_axis * cos_lon - east * sin_lon
    y = origin[s, 5] + out_of_axis * sin_lon + east * cos_lon
    z = origin[s, 6] + north * cos_lat + up * sin_lat
    radius = wp.sqrt(x * x + y * y)
    lat = wp.atan2(z, radius * (_ONE - _E2))
    for _ in range(6):
        sine = wp.sin(lat)
        lat = wp.atan2(z + _E2 * (_A / wp.sqrt(_ONE - _E2 * sine * sine)) * sine, radius)
    sine = wp.sin(lat)
    normal = _A / wp.sqrt(_ONE - _E2 * sine * sine)
    out[7 * s, b] = lat * _DEGREES
    out[7 * s + 1, b] = wp.atan2(y, x) * _DEGREES
    out[7 * s + 2, b] = radius * wp.cos(lat) + z * sine - _A * _A / normal
    for i in range(3):
        out[7 * s + 3 + i, b] = data[6 * s + 3 + i, b]


# -- wheels ------------------------------------------------------------------------------------------------------------


@wp.kernel
def odometry(
    qpos: wp.array2d(dtype=Any),
    qvel: wp.array2d(dtype=Any),
    wheels: wp.array2d(dtype=wp.int32),
    shares: _doubles,
    first: _ints,
    before: _doubles3,
    pose: _doubles4,
    geometry: _doubles,
    errors: wp.array3d(dtype=wp.float32),
    dt: wp.float64,
    is_reset: wp.bool,
    envs: _mask,
    truth: _singles,
    measured: _singles,
):
    """Advance the dead reckoning of both branches by the rotation of each wheel since the last step."""
    s, b = wp.tid()
    if not envs[b]:
        return
    radius = geometry[s, 0]
    tick = geometry[s, 2]
    moved = wp.vec4d()  # true rotation, left and right; counted rotation, left and right
    for w in range(first[s], first[s + 1]):
        angle = wp.float64(qpos[b, wheels[w, 0]])
        counted = angle
        if tick > _ZERO:
            counted = wp.floor(angle / tick) * tick
        turned = angle - before[b, w, 0]
        turned_counts = counted - before[b, w, 1]
        if is_reset:  # no time has passed: speeds come from the rates instead
            turned = wp.float64(qvel[b, wheels[w, 1]]) * dt
            turned_counts = turned
        for side in range(2):
            moved[side] += shares[w, side] * turned
            moved[2 + side] += shares[w, side] * turned_counts
        before[b, w, 0] = angle
        before[b, w, 1] = counted
    for branch in range(2):
        left = moved[2 * branch] * radius
        right = moved[2 * branch + 1] * radius
        width = geometry[s, 1]
        if branch == 1:
            left *= _ONE + wp.float64(errors[0, s, b])
            right *= _ONE + wp.float64(errors[1, s, b])
            width *= _ONE + wp.float64(errors[2, s, b])
        distance = (left + right) / _TWO
        turn = (right - left) / width
        if is_reset:
            for i in range(3):
                pose[b, s, branch, i] = _ZERO
        else:
            half = turn / _TWO
            chord = distance * (_ONE - half * half / wp.float64(6.0))
            if wp.abs(half) > wp.float64(1e-6):
                chord = distance * (wp.sin(half) / half)
            heading = pose[b, s, branch, 2] + half
            pose[b, s, branch, 0] += chord * wp.cos(heading)
            pose[b, s, branch, 1] += chord * wp.sin(heading)
            pose[b, s, branch, 2] += turn
        for i in range(3):
            if branch == 0:
                truth[5 * s + i, b] = wp.float32(pose[b, s, branch, i])
            else:
                measured[5 * s + i, b] = wp.float32(pose[b, s, branch, i])
        if branch == 0:
            truth[5 * s + 3, b] = wp.float32(distance / dt)
            truth[5 * s + 4, b] = wp.float32(turn / dt)
        else:
            measured[5 * s + 3, b] = wp.float32(distance / dt)
            measured[5 * s + 4, b] = wp.float32(turn / dt)


# -- battery -----------------------------------------------------------------------------------------------------------


@wp.func
def _voltage(curves: _doubles3, s: wp.int32, x: wp.float64) -> wp.float64:
    """Interpolate a piecewise linear curve; constant beyond its ends."""
    last = curves.shape[1] - 1
    y = curves[s, last, 1]
    for k in range(last):
        i = last - k  # from the end, so that the first segment that contains x is evaluated last
        if x < curves[s, i, 0]:
            part = (x - curves[s, i - 1, 0]) / (curves[s, i, 0] - curves[s, i - 1, 0])
            y = curves[s, i - 1, 1] + part * (curves[s, i, 1] - curves[s, i - 1, 1])
    if x <= curves[s, 0, 0]:
        y = curves[s, 0, 1]
    return y


@wp.func
def _electric(force: wp.float64, speed: wp.float64, efficiency: wp.float64, back: wp.float64, loss: wp.float64):
    """Return the electric power of one actuator."""
    mechanical = force * speed
    return loss * force * force + wp.where(mechanical > _ZERO, mechanical / efficiency, mechanical * back)


@wp.func
def _deliverable(power: wp.float64, voltage: wp.float64, resistance: wp.float64) -> wp.float64:
    """Limit a power to what a source of this open-circuit voltage and internal resistance can deliver."""
    limited = power
    if resistance > _ZERO:
        limited = wp.min(power, voltage * voltage / (wp.float64(4.0) * resistance))
    return limited


@wp.func
def _current(power: wp.float64, voltage: wp.float64, resistance: wp.float64) -> wp.float64:
    """Return the current at which a source of this open-circuit voltage and resistance delivers a power."""
    current = power / voltage
    if resistance != _ZERO:
        inside = wp.max(voltage * voltage - wp.float64(4.0) * resistance * power, _ZERO)
        current = (voltage - wp.sqrt(inside)) / (_TWO * resistance)
    return current


@wp.kernel
def discharge(
    force: wp.array2d(dtype=Any),
    speed: wp.array2d(dtype=Any),
    actuators: _ints,
    first: _ints,
    numbers: _doubles,
    curves: _doubles3,
    initial: _singles,
    before: _doubles,
    state: _doubles3,
    dt: wp.float64,
    is_reset: wp.bool,
    envs: _mask,
    out: _singles,
):
    """Compute the electric power of the actuators, and discharge the batteries by it.

    ``initial`` (sensors, B) is the charge after a reset.
    """
    s, b = wp.tid()
    if not envs[b]:
        return
    resistance = numbers[s, 5]
    power = numbers[s, 3]
    mean = numbers[s, 3]
    for n in range(first[s], first[s + 1]):
        pull = wp.float64(force[b, actuators[n]])
        turn = wp.float64(speed[b, actuators[n]])
        power += _electric(pull, turn, numbers[s, 0], numbers[s, 1], numbers[s, 2])
        mean += _electric(pull, (before[b, n] + turn) / _TWO, numbers[s, 0], numbers[s, 1], numbers[s, 2])
        before[b, n] = turn
    if is_reset:
        state[b, s, 0] = wp.float64(initial[s, b])
        state[b, s, 1] = _ZERO
    else:
        open_circuit = _voltage(curves, s, state[b, s, 0])
        mean = _deliverable(mean, open_circuit, resistance)
        drawn = _current(mean, open_circuit, resistance) * dt / numbers[s, 4]
        state[b, s, 0] = wp.min(wp.max(state[b, s, 0] - drawn, _ZERO), _ONE)
        state[b, s, 1] += mean * dt
    voltage = _voltage(curves, s, state[b, s, 0])
    power = _deliverable(power, voltage, resistance)
    current = _current(power, voltage, resistance)
    out[5 * s, b] = wp.float32(state[b, s, 0])
    out[5 * s + 1, b] = wp.float32(voltage - resistance * current)
    out[5 * s + 2, b] = wp.float32(current)
    out[5 * s + 3, b] = wp.float32(power)
    out[5 * s + 4, b] = wp.float32(state[b, s, 1])
