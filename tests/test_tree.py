"""The component tree: names, tags, cascades, loading."""

from collections import ChainMap, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace

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


# -- containers -------------------------------------------------------------------------------------------------------


class Nest(Module):
    """Buffers in every kind of container, nested."""

    def __init__(self):
        def one(value):
            return Buffer(float(value), {"deep"})

        pair = namedtuple("Pair", "left right")
        self.rows = [[one(0)], (one(1), [one(2)])]
        self.table = {"a": [one(3)], "b": {"c": one(4)}}
        self.queue = deque([one(5)], maxlen=3)
        self.fixed = MappingProxyType({"x": [one(6)]})
        self.pair = pair(one(7), [Leaf()])
        self.grouped = defaultdict(list, {7: [one(8)]})
        self.loop = [one(9)]
        self.loop.append(self.loop)
        self.plain = [[1, "a"], {"b": {2, 3}}, {("x", 1)}]


def test_buffers_in_nested_containers_are_in_the_tree():
    nest = Nest()
    assert nest.state_dict(include_tags=["deep"]) == {
        "rows.0.0": 0.0,
        "rows.1.0": 1.0,
        "rows.1.1.0": 2.0,
        "table.a.0": 3.0,
        "table.b.c": 4.0,
        "queue.0": 5.0,
        "fixed.x.0": 6.0,
        "pair.0": 7.0,
        "grouped.7.0": 8.0,
        "loop.0": 9.0,
    }
    assert [path for path, _ in nest.named_modules()] == ["", "pair.1.0"]
    values = {name: value + 1 if isinstance(value, float) else value for name, value in nest.state_dict().items()}
    nest.load_state_dict(values)
    assert nest.rows[1][1][0].value == 3.0
    assert nest.fixed["x"][0].value == 7.0


def test_children_in_nested_containers_can_be_replaced():
    nest = Nest()
    leaves = {path: buffer for path, buffer in nest.named_buffers() if "deep" in buffer.tags and path != "loop.0"}
    for path, buffer in leaves.items():
        assert nest.replace_child(buffer, new := Buffer(path, {"new"})), path
        assert dict(nest.named_buffers())[path] is new
    assert nest.queue.maxlen == 3
    assert nest.grouped["missing"] == []
    assert nest.pair.left.value == "pair.0"


@pytest.mark.parametrize(
    "make", [lambda one: UserList([one]), lambda one: UserDict({0: one}), lambda one: ChainMap({}, {0: [one]})]
)
def test_containers_of_the_standard_library_hold_components(make):
    top, old, new = Module(), Buffer(1.0, {"old"}), Buffer(2.0, {"new"})
    top.held = make(old)
    assert list(top.state_dict().values()) == [1.0]
    assert top.replace_child(old, new)
    assert list(top.state_dict().values()) == [2.0]


@dataclass
class Wheels:
    left: Buffer
    rest: list[object]
    radius: float = 0.1
    _hidden: Buffer | None = None
    later: Buffer = field(init=False)  # not set

    def __post_init__(self):
        self.extra = Buffer(5.0)


@dataclass(frozen=True, slots=True)
class Frozen:
    right: Buffer
    pair: tuple[object, ...] = ()


class Car(Module):
    def __init__(self):
        pair = namedtuple("Pair", "first second")
        self.wheels = Wheels(Buffer(0.0), [Leaf(), {"a": Frozen(Buffer(1.0))}], _hidden=Buffer(9.0))
        self.frozen = Frozen(Buffer(2.0), pair(Buffer(3.0), Wheels))  # the class is not an instance
        self.space = SimpleNamespace(x=[Buffer(4.0)])


def test_buffers_in_dataclasses_are_in_the_tree():
    car = Car()
    found = {path: buffer.value for path, buffer in car.named_buffers() if isinstance(buffer.value, float)}
    paths = ("wheels.left", "wheels.rest.1.a.right", "frozen.right", "frozen.pair.0", "space.x.0", "wheels.extra")
    assert found == {path: float(value) for value, path in enumerate(paths)}
    assert [path for path, _ in car.named_modules()] == ["", "wheels.rest.0"]
    car.load_state_dict(dict.fromkeys(found, 7.0), strict=False)
    assert car.wheels.rest[1]["a"].right.value == car.frozen.pair.first.value == 7.0
    for path in found:
        old = dict(car.named_buffers())[path]
        assert car.replace_child(old, new := Buffer(path)), path
        assert dict(car.named_buffers())[path] is new
    assert isinstance(car.frozen, Frozen)
    assert car.frozen.pair.first.value == "frozen.pair.0"


def test_problems_in_dataclasses_name_the_attribute():
    car = Car()
    car.wheels.rest = [{Buffer()}]
    with pytest.raises(sn.errors.TreeError, match=r"attribute 'wheels\.rest\.0' has a Buffer in a set"):
        car.state_dict()
    car.wheels.rest = [car]
    with pytest.raises(sn.errors.TreeError, match=r"cycle: 'wheels\.rest\.0' is its own ancestor"):
        car.update_state()


@pytest.mark.parametrize("held", [{Buffer()}, frozenset({Leaf()}), [{Buffer()}], {"a": {(Buffer(), 1)}}])
def test_components_in_sets_raise_and_name_the_attribute(held):
    top = Module()
    top.bag = held
    for call in (top.state_dict, top.update_state, lambda: top.add_child("other", Buffer())):
        with pytest.raises(sn.errors.TreeError, match="attribute 'bag"):
            call()


@pytest.mark.parametrize(
    ("hold", "paths"),
    [
        (lambda a, b: np.array([a, b], dtype=object), ["bag.0.value", "bag.0.text", "bag.1"]),
        (lambda a, b: np.array([[a, None], [3, b]], dtype=object), ["bag.0.0.value", "bag.0.0.text", "bag.1.1"]),
        (lambda a, b: {"x": a, "y": b}.values(), ["bag.0.value", "bag.0.text", "bag.1"]),
        (lambda a, b: {"x": a, "y": b}.items(), ["bag.0.1.value", "bag.0.1.text", "bag.1.1"]),
        (lambda a, b: UserDict(x=a, y=b).values(), ["bag.0.value", "bag.0.text", "bag.1"]),
        (lambda a, b: np.array([[a], [1, b], None], dtype=object), ["bag.0.0.value", "bag.0.0.text", "bag.1.1"]),
        (lambda a, b: [np.array([{"in": a}, b], dtype=object)], ["bag.0.0.in.value", "bag.0.0.in.text", "bag.0.1"]),
    ],
)
def test_views_and_arrays_of_objects_hold_components(hold, paths):
    """They are found, loaded, and replaced in copies."""
    top, leaf, buffer, other = Module(), Leaf(), Buffer(1.0), Buffer(5.0)
    top.bag = hold(leaf, buffer)
    assert [path for path, _ in top.named_buffers()] == paths
    top.load_state_dict({paths[-1]: 2.0}, strict=False)
    assert buffer.value == 2.0
    before = top.bag
    assert top.replace_child(buffer, other)
    assert top.state_dict()[paths[-1]] == 5.0
    top.bag = before
    assert top.state_dict()[paths[-1]] == 2.0


@pytest.mark.parametrize(
    "hold",
    [
        lambda items: (item for item in items),
        lambda items: map(list, [items]),
        lambda items: filter(None, items),
        lambda items: zip(items, items, strict=True),
        lambda items: iter(items),
        lambda items: iter({"a": items[0]}.values()),
        lambda items: [{"inner": (item for item in items)}],
    ],
)
def test_iterators_raise_and_name_the_attribute(hold):
    """They cannot be searched without consuming them."""
    top = Module()
    top.bag = hold([Buffer(), Leaf()])
    with pytest.raises(sn.errors.TreeError, match=r"attribute 'bag.*' is a .*, which cannot be searched.*use a list"):
        top.state_dict()
    top._bag = top.bag
    del top.bag
    assert top.state_dict() == {}


def test_keys_and_plain_arrays_are_no_children(tmp_path):
    top = Module()
    top.names, top.numbers = {"a": 1}.keys(), np.zeros(3)
    top.mixed = np.array([1, "a", None], dtype=object)
    with open(tmp_path / "log", "w+") as file:
        top.log = file  # an iterator, too
        assert top.state_dict() == {}
    top.names = {Buffer(): 1}.keys()
    with pytest.raises(sn.errors.TreeError, match="'names' has a Buffer in a dict_keys"):
        top.state_dict()


# -- switches ---------------------------------------------------------------------------------------------------------


class Mixin:
    def enable_sound(self):
        self.log.append("mixin")


class Eye(Module):
    enable_shadows = True
    enable_limit: int = 3

    def __init__(self, log):
        self.log = log

    @property
    def enable_half(self):
        return self.enable_limit / 2

    @property
    def enable_broken(self):
        raise AttributeError("inner")

    @staticmethod
    def enable_nothing(value):
        return value

    @classmethod
    def enable_class(cls):
        return cls.__name__

    def enable_rgb_rendering(self, level=1):
        self.log.append(f"eye {level}")
        return "eye"


class ColourEye(Mixin, Eye):
    def enable_rgb_rendering(self, level=1):
        assert super().enable_rgb_rendering(level + 1) == "eye"
        self.log.append("colour")


class LateEye(ColourEye):
    def enable_rgb_rendering(self, level=1):
        super().enable_rgb_rendering(level)
        self.log.append("late")


def test_switches_of_subclasses_may_call_super():
    log = []
    eye = LateEye(log)
    eye.lens = ColourEye(log)
    top = Module()
    top.eyes = [eye]
    assert eye.enable_rgb_rendering() == 2
    assert log == ["eye 2", "colour", "late", "eye 2", "colour"]
    log.clear()
    assert top.enable_rgb_rendering(level=4) == 2
    assert log == ["eye 5", "colour", "late", "eye 5", "colour"]
    log.clear()
    assert top.enable_sound() == 2
    assert log == ["mixin", "mixin"]


def test_constants_and_properties_named_like_switches_stay_what_they_are():
    class Lamp(Module):
        def __init__(self, log):
            self.log = log

        def enable_shadows(self):
            self.log.append("lamp")

        def enable_own(self):
            self.log.append("own")

    log = []
    eye = ColourEye(log)
    assert (eye.enable_shadows, eye.enable_limit, eye.enable_half) == (True, 3, 1.5)
    assert (ColourEye.enable_shadows, eye.enable_nothing(5), eye.enable_class()) == (True, 5, "ColourEye")
    eye.enable_own = False
    assert eye.enable_own is False
    with pytest.raises(AttributeError):
        _ = eye.enable_broken
    eye.lamp = Lamp(log)
    top = Module()
    top.eye = eye
    assert top.enable_shadows() == 1  # passes the constant of the eye, and reaches the lamp below it
    assert top.enable_own() == 1
    assert log == ["lamp", "own"]
    with pytest.raises(AttributeError, match=r"no module of this tree defines enable_nothing"):
        top.enable_nothing()


def test_a_switch_that_raises_can_be_called_again():
    class Fragile(Module):
        broken = True

        def enable_power(self):
            if self.broken:
                raise RuntimeError("fuse")

    fragile = Fragile()
    with pytest.raises(RuntimeError, match="fuse"):
        fragile.enable_power()
    fragile.broken = False
    assert fragile.enable_power() == 1


# -- values -----------------------------------------------------------------------------------------------------------


def test_get_and_set_value():
    buffer = Buffer(torch.zeros(2, 3))
    address = buffer.value.data_ptr()
    buffer.set_value(np.ones((2, 3), np.float64))
    assert buffer.get_value() is buffer.value
    assert (buffer.value.data_ptr(), buffer.value.dtype, buffer.value.sum()) == (address, torch.float32, 6.0)
    with pytest.raises(sn.errors.TreeError, match=r"expected float32 of shape \(2, 3\), got float32 of shape \(3,\)"):
        buffer.set_value([1, 2, 3])
    with pytest.raises(sn.errors.TreeError, match="expected float32"):
        buffer.set_value("text")
    with pytest.raises(sn.errors.TreeError, match="its owner computes it"):
        Buffer(get=lambda: 1).set_value(2)
    assert buffer.value.sum() == 6.0
    text = Buffer("a")
    text.set_value("b")
    assert text.get_value() == "b"
    array = Buffer(np.zeros(2, np.int64))
    array.set_value(torch.tensor([1, 2]))
    assert array.value.tolist() == [1, 2]


def test_a_buffer_knows_whether_it_was_set():
    def changed(change):
        buffer = Buffer(torch.zeros(2))
        buffer.update(torch.tensor([1.0, float("nan")]))
        change(buffer)
        return buffer.is_set

    assert not changed(lambda buffer: None)
    assert not changed(lambda buffer: buffer.value.sum())
    assert changed(lambda buffer: buffer.value.copy_(torch.tensor([1.0, float("nan")])))  # to an equal value
    assert changed(lambda buffer: buffer.value.numpy().fill(2.0))
    assert changed(lambda buffer: setattr(buffer, "value", torch.zeros(2)))
    assert changed(lambda buffer: buffer.set_value([3, 4]))
    with torch.inference_mode():
        assert not changed(lambda buffer: None)
        assert changed(lambda buffer: buffer.value.add_(1))


def test_ground_truth_images_are_selected_only_by_their_own_tags():
    top = Module()
    top.seen = Buffer(1, {"rgb", "camera", "measured"})
    top.true = Buffer(2, {"rgb", "camera", "ground_truth", "ground_truth_rgb"})
    assert list(top.state_dict(include_tags=["rgb"])) == ["seen"]
    assert list(top.state_dict(include_tags=["ground_truth_rgb"])) == ["true"]
    assert list(top.state_dict(include_tags=["camera"])) == ["seen", "true"]
    assert list(top.state_dict(include_tags=["rgb", "ground_truth"])) == ["seen", "true"]
    assert top.state_dict(exclude_tags=["rgb"]) == {}


def test_a_stand_in_gives_way_to_a_child_of_its_name():
    top = Module()
    for name in ("a", "b", "c"):
        top.add_stand_in(name, Buffer(name))
    top.a = Buffer("new")
    top.add_child("b", Leaf())
    assert {path: buffer.value for path, buffer in top.named_buffers() if path in "ac"} == {"a": "new", "c": "c"}
    assert [path for path, _ in top.named_modules()] == ["", "b"]
