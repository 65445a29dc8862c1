"""ROS messages as dicts, from the readings of simulated sensors."""

from collections import defaultdict

import numpy as np


def stamp(time):
    """Return a header with a stamp."""
    return {"stamp": {"sec": int(time // 1), "nanosec": round((time % 1) * 1e9)}}


def set_field(message, path, value):
    """Set a field by its path with dots."""
    *parents, last = path.split(".")
    for each in parents:
        message = message.setdefault(each, {})
    message[last] = value


def messages(terms, values, capture):
    """Return topic -> message of one sample of a sensor.

    Args:
        terms: the terms of the contract.
        values: name of a term -> its values, (size,).
        capture: time of the capture, s.
    """
    found = defaultdict(lambda: {"header": stamp(capture)})
    for term in terms:
        if term.source != "sensor" or term.name not in values:
            continue
        message, value = found[term.topic], np.asarray(values[term.name], dtype=np.float64).reshape(-1)
        if term.conversion == "joints":
            order = list(reversed(range(term.size)))  # another order than in the contract, and a joint that it has not
            message["name"] = ["other", *(f"robot/{term.names[i]}" for i in order)]
            message[term.field] = [99.0, *(value[i] for i in order)]
        elif term.conversion == "quaternion":
            set_field(message, term.field, dict(zip("wxyz", value, strict=True)))
        elif term.message.endswith("Range") or term.size == 1:
            set_field(message, term.field, value[0])
        else:
            assert term.size == 3, term
            set_field(message, term.field, dict(zip("xyz", value, strict=True)))
    return dict(found)


def fields(sensor, reading):
    """Return the values of a reading by the names of a contract's terms: "imu.lin_acc"."""
    parts = reading._asdict() if hasattr(reading, "_asdict") else {"": reading}
    return {f"{sensor}.{part}".rstrip("."): value for part, value in parts.items() if value is not None}


def feed_now(policy, rig, time):
    """Feed what the sensors of env 0 read now, as after a reset."""
    for name in rig.names:
        newest = {}
        for key, value in fields(name, rig[name].read(history_length=0)).items():
            newest[key] = value[0]
        for topic, message in messages(policy.contract.observations, newest, time).items():
            if topic in policy.topics:
                policy.feed(topic, message, time)


def feed_arrived(policy, rig):
    """Feed the samples of env 0 that arrived during the last step, each at its time of arrival."""
    for name in rig.names:
        samples = rig[name].read_samples()
        for number in range(int(samples.count[0])):
            values = {key: value[0, number] for key, value in fields(name, samples.values).items()}
            capture, arrival = float(samples.capture[0, number]), float(samples.arrival[0, number])
            for topic, message in messages(policy.contract.observations, values, capture).items():
                if topic in policy.topics:
                    policy.feed(topic, message, arrival)
