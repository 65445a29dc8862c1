"""Topics that cannot be decoded are named with the reason, and do not hide the others."""

import warnings

import numpy as np
import pytest
from mcap.writer import Writer

import sensorium as sn
from sensorium.cli import main
from sensorium.ros.definitions import schema
from sensorium.ros.messages import make_encoder

FLOAT = "std_msgs/msg/Float64"
GOOD = (FLOAT, "ros2msg", schema(FLOAT).encode(), "cdr")
VALUES = [bytes(row) for row in make_encoder(FLOAT, {}).encode({"data": np.arange(3.0)})]
EIGHT = b"\0\1\0\0" + bytes(8)

UNDECODABLE = {
    "wstring": (("pkg/msg/W", "ros2msg", b"wstring text\n", "cdr"), EIGHT, "unsupported type wstring"),
    "idl": (("pkg/msg/W", "ros2idl", b"module pkg { struct W { double x; }; };", "cdr"), EIGHT, "format 'ros2idl'"),
    "nested": (("pkg/msg/W", "ros2msg", b"other/Thing t\n", "cdr"), EIGHT, "lacks the message 'other/msg/Thing'"),
    "definition": ((None, "", b"", "cdr"), EIGHT, "CDR without a definition"),
    "endian": ((FLOAT, "ros2msg", b"float64 data\n", "cdr"), bytes(12), "big-endian CDR"),
    "protobuf": (("foxglove.Imu", "protobuf", b"\0", "protobuf"), b"\0", "encoded as 'protobuf'"),
    "ros1": (("sensor_msgs/Imu", "ros1msg", b"Header header\n", "ros1"), b"\0", "encoded as 'ros1'"),
}


def write(path, *channels):
    """Write channels: (topic, (message, format, definition, encoding), messages)."""
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="test")
        time = 0
        for topic, (name, form, text, encoding), messages in channels:
            number = 0 if name is None else writer.register_schema(name, form, text)
            channel = writer.register_channel(topic, encoding, number)
            for data in messages:
                writer.add_message(channel, time, data, time)
                time += 1_000_000
        writer.finish()
    return path


@pytest.mark.parametrize("case", UNDECODABLE)
def test_the_others_are_read(tmp_path, case):
    kind, data, reason = UNDECODABLE[case]
    path = write(tmp_path / "a.mcap", ("/good", GOOD, VALUES), ("/bad", kind, [data]))
    with pytest.warns(UserWarning, match=r"1 of its 2 topics cannot be decoded: topic /bad.*: ") as caught:
        log = sn.logs.read(path)
    assert len(caught) == 1
    assert reason in str(caught[0].message)
    assert list(log) == ["/good"]
    assert log["/good"]["data"].tolist() == [0, 1, 2]
    assert reason in log.undecodable["/bad"]
    assert "/bad" in str(log)
    assert "/bad" not in log
    with pytest.raises(sn.DatasetError, match="topic /bad"):
        log["/bad"]
    assert log.without("/good").undecodable == log.undecodable
    with pytest.raises(sn.DatasetError, match=r"a\.mcap, topic /bad"):
        sn.logs.read(path, topics=["/bad"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(sn.logs.read(path, topics=["/good"])) == ["/good"]


@pytest.mark.parametrize("case", ["ros1", "protobuf"])
def test_files_of_other_encodings_are_refused(tmp_path, capsys, case):
    kind, data, reason = UNDECODABLE[case]
    path = write(tmp_path / "a.mcap", ("/imu", kind, [data]))
    with pytest.raises(sn.DatasetError, match=f"none of the 1 topics of .* {reason}"):
        sn.logs.read(path)
    assert main(["doctor", str(path)]) == 2
    assert case in capsys.readouterr().err


def test_definitions_of_two_channels_must_agree(tmp_path):
    other = (FLOAT, "ros2msg", b"float64 data\nint32 more\n", "cdr")
    path = write(tmp_path / "a.mcap", ("/a", GOOD, VALUES), ("/b", GOOD, VALUES), ("/a", other, [EIGHT + bytes(4)]))
    with pytest.warns(UserWarning, match=f"topic /a .*message 3 has another definition of {FLOAT}"):
        assert list(sn.logs.read(path)) == ["/b"]
    commented = (FLOAT, "ros2msg", b"# a number\nfloat64 data  # of SI\n", "cdr")
    path = write(tmp_path / "b.mcap", ("/a", GOOD, VALUES), ("/a", commented, VALUES))
    assert sn.logs.read(path)["/a"]["data"].tolist() == [0, 1, 2, 0, 1, 2]
    as_json = (FLOAT, "jsonschema", b"{}", "json")
    path = write(tmp_path / "c.mcap", ("/a", GOOD, VALUES), ("/a", as_json, [b'{"data": 1}']))
    with pytest.raises(sn.DatasetError, match="message 3 is encoded as 'json', and those before it as 'cdr'"):
        sn.logs.read(path, topics=["/a"])
    text = ("std_msgs/msg/String", "ros2msg", b"string data\n", "cdr")
    path = write(tmp_path / "d.mcap", ("/a", GOOD, VALUES), ("/a", text, [EIGHT]))
    with pytest.raises(sn.DatasetError, match=r"message 3 is a std_msgs/msg/String, and those before it are"):
        sn.logs.read(path)
