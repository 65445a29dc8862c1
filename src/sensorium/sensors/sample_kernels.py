"""The Numba kernel of :class:`sensorium.sensors.samples.SampleQueue`."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def pick_samples(
    arrives: np.ndarray,
    offset: np.ndarray,
    ring: np.ndarray,
    step: int,
    ticks: np.ndarray,
    ticks_per_step: int,
    dt: float,
    values: np.ndarray,
    capture: np.ndarray,
    arrival: np.ndarray,
    count: np.ndarray,
) -> None:
    """Write the samples that arrived during the last step, the oldest arrival first.

    Of samples that arrived together, the oldest capture is first. If more arrived than there are places, those with the
    oldest captures are missing.

    Args:
        arrives, offset: (slots, B) ticks from the tick of a sample to its arrival, and from its capture to its tick.
        ring: (slots, columns, B) values. Slot ``(step - k) % slots`` is that of k ticks ago.
        step: number of the tick.
        ticks: (B,) ticks since the reset.
        ticks_per_step: ticks of a step.
        dt: time of a tick, s.
        values: (places, columns, B), filled; 0 in places without a sample, as it was.
        capture, arrival: (places, B) s, filled; infinite in places without a sample, as they were.
        count: (B,) number of samples that arrived, filled.
    """
    slots, places = len(arrives), len(values)
    ages = np.zeros(places, np.int64)
    since = np.zeros(places)
    for env in range(len(count)):
        found = 0
        for age in range(slots):
            late = np.float64(arrives[(step - age) % slots, env])
            whole = max(np.ceil(late), 0.0)
            if whole > age or whole <= age - ticks_per_step:
                continue
            found += 1
            if found > places:
                continue
            at = found - 1
            while at > 0 and since[at - 1] <= age - late:
                since[at], ages[at] = since[at - 1], ages[at - 1]
                at -= 1
            since[at], ages[at] = age - late, age
        count[env] = found
        now = ticks[env] * dt
        for place in range(min(found, places)):
            slot = (step - ages[place]) % slots
            capture[place, env] = now - (ages[place] + np.float64(offset[slot, env])) * dt
            arrival[place, env] = now - (ages[place] - np.float64(arrives[slot, env])) * dt
            for column in range(values.shape[1]):
                values[place, column, env] = ring[slot, column, env]
