"""Messages of ROS 2: definitions, encoding and decoding, compared with two other libraries."""

import numpy as np
import pytest
from mcap_ros2._dynamic import generate_dynamic
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from sensorium.errors import DatasetError, OptionError
from sensorium.ros.cdr import Encoder, decode, layout_of, parse
from sensorium.ros.definitions import DEFINITIONS, schema

ROS = get_typestore(Stores.ROS2_JAZZY)


@pytest.fixture(scope="module")
def ours():
    """Our definitions in a type store of rosbags."""
    store = get_typestore(Stores.EMPTY)
    for name, text in DEFINITIONS.items():
        store.register(get_types_from_msg(text, name))
    return store


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions_are_those_of_ros(ours, name):
    """The hash is that of ROS 2 (REP 2011); constants and defaults are not part of it, and are compared apart."""
    assert ours.hash_rihs01(name) == ROS.hash_rihs01(name)
    assert ours.fielddefs[name] == ROS.fielddefs[name]


def random_message(name, rng):
    """Return path -> random value, for every field of a message with sequences of random lengths."""
    definition, constant = parse(name, schema(name)), {}
    for _ in range(3):  # the lengths of inner sequences are known when those of the outer ones are
        for leaf in layout_of(name, definition, constant).leaves:
            if not leaf.dtype:
                constant.setdefault(leaf.path, "abcdefgh"[: rng.integers(0, 8)])
        for path in _sequences(name, definition):
            constant.setdefault(path, int(rng.integers(0, 4)))
    layout, values = layout_of(name, definition, constant), {}
    for leaf in layout.leaves:
        if leaf.dtype:
            dtype = np.dtype(leaf.dtype)
            shape = (leaf.n,) if leaf.is_array else ()
            numbers = (
                rng.integers(0, 2, shape)
                if dtype.kind == "b"
                else rng.integers(0, 100, shape) + 0.25 * (dtype.kind == "f")
            )
            values[leaf.path] = np.asarray(numbers).astype(dtype)
    return definition, constant, values


def _sequences(name, definition, path=""):
    for member in definition.get(name, ()):
        own = f"{path}.{member.name}" if path else member.name
        if member.length == -1:
            yield own
        elif member.length is None and member.kind in definition:
            yield from _sequences(member.kind, definition, own)


def get(message, path):
    """Return the value of a path in a decoded message of another library."""
    for part in path.split("."):
        message = message[int(part)] if part.isdigit() else getattr(message, part)
    return np.frombuffer(message, np.uint8) if isinstance(message, bytes) else message


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_other_libraries_decode_what_is_encoded(name, seed):
    definition, constant, values = random_message(name, np.random.default_rng(seed))
    data = Encoder(name, definition, constant).encode({path: [value] for path, value in values.items()})[0].tobytes()
    dynamic = generate_dynamic(name, schema(name))
    texts = {path: value for path, value in constant.items() if isinstance(value, str)}
    for message in (ROS.deserialize_cdr(data, name), dynamic[name](data)):
        for path, value in values.items():
            np.testing.assert_array_equal(np.asarray(get(message, path)).ravel(), np.ravel(value), err_msg=path)
        for path, text in texts.items():
            assert get(message, path) == text
    assert ROS.serialize_cdr(ROS.deserialize_cdr(data, name), name).tobytes()[4:].rstrip(b"\0") == data[4:].rstrip(
        b"\0"
    )


@pytest.mark.parametrize("name", DEFINITIONS)
def test_messages_of_another_library_are_decoded(name):
    """Messages of three lengths, in turn, are decoded in groups."""
    encoded, expected = [], []
    for seed in (0, 1, 2, 0, 1, 2):
        definition, constant, values = random_message(name, np.random.default_rng(seed))
        data = Encoder(name, definition, constant).encode({path: [value] for path, value in values.items()})[0]
        encoded.append(ROS.serialize_cdr(ROS.deserialize_cdr(data.tobytes(), name), name).tobytes())
        expected.append(values)
    seen = np.zeros(6, bool)
    for numbers, _, columns in decode(name, definition, encoded):
        seen[numbers] = True
        for path in expected[numbers[0]]:
            for row, number in zip(columns(path), numbers, strict=True):
                np.testing.assert_array_equal(row, expected[number][path], err_msg=path)
    assert seen.all()


def test_many_messages_are_encoded_as_one_by_one():
    name = "sensor_msgs/msg/Imu"
    encoder = Encoder(name, parse(name, schema(name)), {"header.frame_id": "base"})
    values = {"angular_velocity.x": np.arange(5.0), "header.stamp.sec": np.arange(5)}
    together = encoder.encode(values)
    for i in range(5):
        alone = encoder.encode({path: column[i : i + 1] for path, column in values.items()})
        np.testing.assert_array_equal(together[i], alone[0])


def test_mistakes_are_named():
    name = "sensor_msgs/msg/Imu"
    definition = parse(name, schema(name))
    encoder = Encoder(name, definition, {})
    with pytest.raises(OptionError, match=r"sensor_msgs/msg/Imu has no field 'angular_velocty.x' \(did you mean"):
        encoder.encode({"angular_velocty.x": [1.0]})
    with pytest.raises(OptionError, match=r"no definition of 'sensor_msgs/msg/Imuu' \(did you mean"):
        schema("sensor_msgs/msg/Imuu")
    good = encoder.encode({"header.stamp.sec": [1]})[0].tobytes()
    with pytest.raises(DatasetError, match=r"message 1 has \d+ bytes instead of \d+"):
        list(decode(name, definition, [good, good[:-1]]))
    with pytest.raises(DatasetError, match="message 0 is not plain little-endian CDR: it begins with 00000000"):
        list(decode(name, definition, [b"\0" * 400]))
    with pytest.raises(DatasetError, match="frame_id has a length of 4294967295 beyond the end"):
        list(decode(name, definition, [good[:12] + b"\xff" * 4 + good[16:]]))
    with pytest.raises(DatasetError, match="lacks the message 'a_msgs/msg/Thing'"):
        parse("b_msgs/msg/Other", "a_msgs/Thing thing\n")
    with pytest.raises(DatasetError, match="line without a name"):
        parse("b_msgs/msg/Third", "float64\n")
    with pytest.raises(DatasetError, match="a message that contains itself: b_msgs/msg/Loop"):
        parse("b_msgs/msg/Loop", "b_msgs/Loop[] inner\n")
