"""Damaged files raise errors of Sensorium, never those of other libraries: a seeded sample of every kind of file."""

import random

import fuzz_files
import pytest
import yaml
from test_fuzz import DAY_SEED

from sensorium.json_files import json_with_checksum, parse_json

SLOW = ("dataset", "exported dataset", "dataset with images", "recording", "replayed recording", "replay")
"""Kinds that take longer to read."""


@pytest.mark.parametrize("name", fuzz_files.KINDS)
def test_damaged_files_raise_our_errors(name):
    count = 4 if name in SLOW else 8
    outcomes = [fuzz_files.read_damaged(name, count * DAY_SEED + number) for number in range(count)]
    assert not [f"{what}: {fault}" for what, fault in outcomes if fault]


def test_every_file_of_a_kind_is_damaged():
    for name in ("memory", "brain", "map"):
        seen = {fuzz_files.read_damaged(name, seed)[0].split(": ")[1].split(",")[0] for seed in range(60)}
        assert seen == {str(file) for file in fuzz_files.files_of(name)}


def test_changed_values_have_a_right_checksum():
    whole = json_with_checksum({"format": "x", "values": [1, {"a": 2}]})
    places = set()
    for seed in range(60):
        data, what = fuzz_files.change_value(whole, ".json", random.Random(seed))
        content, checked = parse_json(data)
        assert checked
        assert content != parse_json(whole)[0] or "checksum" in what or " = " in what
        places.add(what.removeprefix("without ").split(" ")[0])
    assert {"/format", "/values", "/values/0", "/values/1", "/values/1/a"} <= places
    data, _ = fuzz_files.change_value(b"a: {b: 1}", ".yaml", random.Random(0))
    assert yaml.safe_load(data) != {"a": {"b": 1}}
