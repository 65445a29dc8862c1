"""The component tree: names, tags, cascades, loading."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium import Buffer, Module


class Leaf(Module):
    def __init__(self, log=None, name=""):
        self.value = Buffer(torch.zeros(2), tags={"leaf", "number"})
        self.text = Buffer("a", tags="text")
        self._log, self._name = log, name

    def _update_state(self):
        if self._log is not None:
            self._log.append(("update", self._name))

    def _write_replay_data(self):
        self._log.append(("write", self._name))

    def _enable_light(self, level):
        self._log.append((f"light {level}", self._name))


class Top(Module):
    def __init__(self, log=None):
        self.first = Leaf(log, "first")
        self.count = Buffer(3, tags={"number"})
        self.listed = [Leaf(log, "l0"), Leaf(log, "l1")]
        self.pair = (Leaf(log, "p0"),)
        self.named = {"x": Leaf(log, "nx")}
        self.plain = [1, 2]
        self._hidden = Leaf(log, "hidden")


def test_paths_follow_insertion_order_and_containers():
    assert [path for path, _ in Top().named_buffers()] == [
        "first.value",
        "first.text",
        "count",
        "listed.0.value",
        "listed.0.text",
        "listed.1.value",
        "listed.1.text",
        "pair.0.value",
        "pair.0.text",
        "named.x.value",
        "named.x.text",
    ]
    assert [path for path, _ in Top().named_modules()] == ["", "first", "listed.0", "listed.1", "pair.0", "named.x"]


def test_state_dict_selects_buffers_by_tags():
    top = Top()
    assert len(top.state_dict()) == 11
    assert set(top.state_dict(include_tags=["number"])) == {
        "first.value",
        "count",
        "listed.0.value",
        "listed.1.value",
        "pair.0.value",
        "named.x.value",
    }
    assert set(top.state_dict(include_tags=["number"], exclude_tags=["leaf"])) == {"count"}
    assert set(top.state_dict(include_tags=["text", "number"], exclude_tags=["leaf"])) == {
        "count",
        *(f"{path}.text" for path in ("first", "listed.0", "listed.1", "pair.0", "named.x")),
    }
    assert top.state_dict(include_tags=[]) == {}
    assert top.state_dict(include_tags=["nothing"]) == {}
    with pytest.raises(TypeError, match=r"include_tags=\['number'\]"):
        top.state_dict(include_tags="number")


def test_shared_children_are_listed_once_under_their_first_path():
    top = Module()
    leaf = Leaf()
    top.a, top.b, top.c = leaf, [leaf], leaf.value
    assert [path for path, _ in top.named_buffers()] == ["a.value", "a.text"]


def test_cycles_raise():
    top = Top()
    top.first.back = top
    with pytest.raises(sn.errors.TreeError, match=r"cycle: 'first\.back' is its own ancestor"):
        top.state_dict()
    with pytest.raises(sn.errors.TreeError, match="leading underscore"):
        top.update_state()


def test_duplicate_child_names_raise():
    top = Module()
    top.add_child("a", Leaf())
    with pytest.raises(sn.errors.DuplicateNameError, match="'a'"):
        top.add_child("a", Leaf())


def test_calls_run_top_down():
    log = []
    top = Top(log)
    top.update_state()
    top.write_replay_data()
    order = ["first", "l0", "l1", "p0", "nx"]
    assert log == [("update", name) for name in order] + [("write", name) for name in order]
    log.clear()
    assert top.enable_light(4) == 5
    assert log == [("light 4", name) for name in order]
    with pytest.raises(AttributeError, match="enable_sound"):
        top.enable_sound()
    with pytest.raises(AttributeError, match="no attribute 'volume'"):
        _ = top.volume


def test_loading_copies_in_place():
    source, target = Top(), Top()
    for _, buffer in source.named_buffers():
        if isinstance(buffer.value, torch.Tensor):
            buffer.value.uniform_()
    source.count.value, source.first.text.value = 7, "b"
    address = target.first.value.value.data_ptr()
    assert target.load_state_dict(source.state_dict()) == {}
    for (path, a), (_, b) in zip(source.named_buffers(), target.named_buffers(), strict=True):
        equal = torch.equal(a.value, b.value) if isinstance(a.value, torch.Tensor) else a.value == b.value
        assert equal, path
    assert target.first.value.value.data_ptr() == address


def test_failed_loading_names_every_problem_and_changes_nothing():
    top = Top()
    values = {path: value for path, value in top.state_dict().items() if path != "count"}
    values |= {"first.value": torch.ones(2), "listed.0.value": torch.ones(3), "pair.0.value": np.zeros(2), "extra": 1}
    with pytest.raises(sn.errors.StateDictError) as caught:
        top.load_state_dict(values)
    error = caught.value
    assert error.missing == ["count"]
    assert error.unexpected == ["extra"]
    assert error.mismatched == {
        "listed.0.value": "expected float32 of shape (2,), got float32 of shape (3,)",
        "pair.0.value": "expected float32 of shape (2,), got float64 of shape (2,)",
    }
    for word in ("missing: count", "unexpected: extra", "listed.0.value", "(3,)"):
        assert word in str(error)
    assert torch.equal(top.first.value.value, torch.zeros(2))

    rest = top.load_state_dict(values, strict=False)
    assert set(rest) == {"listed.0.value", "pair.0.value", "extra"}
    assert torch.equal(top.first.value.value, torch.ones(2))
    assert torch.equal(top.listed[0].value.value, torch.zeros(2))


def test_arrays_load_into_tensors_and_tensors_into_arrays():
    top = Module()
    top.tensor, top.array = Buffer(torch.zeros(3)), Buffer(np.zeros(3))
    top.load_state_dict({"tensor": np.ones(3, np.float32), "array": torch.full((3,), 2.0, dtype=torch.float64)})
    assert top.tensor.value.tolist() == [1, 1, 1]
    assert top.array.value.tolist() == [2, 2, 2]


def test_types_of_values_are_checked():
    top = Module()
    top.text, top.flag, top.empty = Buffer("a"), Buffer(1.5), Buffer(None)
    with pytest.raises(sn.errors.StateDictError, match="expected str, got int"):
        top.load_state_dict({"text": 1, "flag": 2, "empty": None})
    top.load_state_dict({"text": "b", "flag": 2, "empty": [1]})
    assert top.state_dict() == {"text": "b", "flag": 2, "empty": [1]}


def test_overridden_public_methods_of_children_are_called():
    """A child may override the public method itself, with or without calling super."""
    log = []

    class Camera(Module):
        def update_state(self):
            log.append("camera")
            return super().update_state()

        def enable_rgb(self):
            log.append("rgb")

    class Rig(Module):
        def __init__(self):
            self.left = self.right = Camera()
            self.other = Camera()

        def enable_depth(self):
            log.append("rig")

    class Lens(Module):
        def enable_depth(self):
            log.append("lens")

    top = Module()
    top.rig = Rig()
    top.update_state()
    assert log == ["camera", "camera"], "a shared child is called once"
    log.clear()
    top.enable_rgb()
    assert log == ["rgb", "rgb"]
    log.clear()
    top.rig.other.lens = Lens()
    top.rig.enable_depth()
    assert log == ["rig", "lens"], "children are also reached below a module that defines the method"


def test_none_and_numbers_are_checked():
    top = Module()
    top.tensor, top.count, top.flag, top.share = Buffer(torch.zeros(2)), Buffer(1), Buffer(True), Buffer(0.5)
    good = {"tensor": torch.ones(2), "count": 2, "flag": False, "share": 1}
    for name, bad in (("tensor", None), ("count", 2.5), ("flag", 7), ("count", True)):
        with pytest.raises(sn.errors.StateDictError, match=name):
            top.load_state_dict(good | {name: bad})
        assert top.tensor.value.tolist() == [0, 0]
    top.load_state_dict(good)
    assert top.share.value == 1
    top.load_state_dict(good | {"share": 1.5})
    assert top.share.value == 1.5


def test_calls_in_several_threads_are_independent():
    from concurrent.futures import ThreadPoolExecutor

    def update_often(_):
        top = Top([])
        for _ in range(200):
            top.update_state()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(update_often, range(8)))
