"""``scene.add_module``: modules that add several things and keep them together, completely or not at all."""

import json

import pytest
import torch

import sensorium as sn


class CartOptions(sn.Options):
    """Options of a cart."""

    mass: float = 1.0
    """Mass, kg."""


class Cart(sn.SceneModule[CartOptions]):
    """A box with an IMU under ``senses``, and a clock that it does not keep."""

    options_type = CartOptions

    def attach(self, scene, name):
        self._box = scene.add_object(sn.Box(mass=self.options.mass), name=name, pos=(0, 0, 0.05), free=True)
        self.senses = {"imu": scene.add_sensor(sn.IMU(link=name, uuid=f"{name}_imu"))}
        scene.add_sensor(sn.Clock(uuid=f"{name}_clock"))
        scene.add_light("point", name=f"{name}_lamp", pos=(0, 0, 2))

    def start(self, scene):
        self.speed = sn.Buffer(torch.zeros(scene.n_envs), {"state"})


class Broken(Cart):
    """Raises after everything was added."""

    def attach(self, scene, name):
        super().attach(scene, name)
        raise RuntimeError("no wheels")


class Unstartable(Cart):
    """Raises when the scene is built."""

    broken = True

    def start(self, scene):
        if self.broken:
            raise RuntimeError("no fuel")
        super().start(scene)


def test_a_module_keeps_what_it_added():
    scene = sn.Scene()
    cart = scene.add_module("cart", Cart(mass=2.0))
    scene.build(n_envs=3)
    scene.step()
    scene.update_state()
    names = list(scene.state_dict())
    assert names.count("cart.senses.imu.measured") == 1
    assert "cart.speed" in names
    assert "cart.cart_clock.measured" in names
    assert not any(name.startswith(("cart_imu", "cart_clock")) for name in names)
    assert scene["cart"] is cart
    assert scene["cart_imu"] is scene.sensors["cart_imu"] is cart.senses["imu"]
    assert scene.modules == {"cart": cart}
    assert scene.entities["cart"] is cart._box
    assert scene.model.body("cart").mass[0] == pytest.approx(2.0)
    again = Cart(CartOptions(**cart.options.model_dump(mode="json")))
    assert again.options == cart.options


def test_a_module_that_raises_leaves_the_scene_unchanged():
    scene = sn.Scene()
    scene.add_module("first", Cart())
    with pytest.raises(RuntimeError, match="no wheels"):
        scene.add_module("second", Broken())
    assert list(scene.entities) == ["first"]
    assert list(scene.sensors) == ["first_imu", "first_clock"]
    assert list(scene.modules) == ["first"]
    second = scene.add_module("second", Cart())  # all names are free again, also in the model
    scene.build()
    assert scene.model.nlight == 2
    assert second.senses["imu"].read().lin_acc.shape == (1, 3)


def test_a_module_that_cannot_start_leaves_the_scene_unbuilt():
    scene = sn.Scene()
    cart = scene.add_module("cart", Unstartable())
    with pytest.raises(RuntimeError, match="no fuel"):
        scene.build()
    with pytest.raises(sn.NotBuiltError):
        scene.step()
    cart.broken = False
    scene.build(n_envs=2)
    scene.step()
    assert cart.senses["imu"].read().lin_acc.shape == (2, 3)
    assert cart.speed.value.shape == (2,)


def test_invalid_modules_raise():
    class Nested(Cart):
        def attach(self, scene, name):
            scene.add_module("inner", Cart())

    scene = sn.Scene()
    cart = scene.add_module("cart", Cart())
    with pytest.raises(sn.OptionError, match=r"takes a sn\.SceneModule"):
        scene.add_module("other", sn.Module())
    with pytest.raises(sn.errors.DuplicateNameError, match="'again': this Cart is already in a scene, as 'cart'"):
        scene.add_module("again", cart)
    with pytest.raises(sn.errors.DuplicateNameError, match="'cart'"):
        scene.add_module("cart", Cart())
    with pytest.raises(sn.errors.DuplicateNameError, match="'cart'"):
        scene.add_object(sn.Box(), name="cart")
    with pytest.raises(sn.OptionError, match="further modules"):
        scene.add_module("outer", Nested())
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'cart'"):
        scene["carp"]
    scene.build()
    with pytest.raises(sn.errors.AlreadyBuiltError):
        scene.add_module("late", Cart())


def test_module_or_robot_of_another_scene_raises_and_stays_there():
    first, second = sn.Scene(), sn.Scene()
    cart = first.add_module("cart", Cart())
    robot = first.add_robot(sn.robots.make("diffdrive"), name="left")
    with pytest.raises(sn.errors.DuplicateNameError, match="'room': this Cart is already in a scene, as 'cart'"):
        second.add_module("room", cart)
    with pytest.raises(sn.errors.DuplicateNameError, match="'right': this Robot is already in a scene, as 'left'"):
        second.add_robot(robot, name="right")
    assert not second.modules
    assert not second.entities
    assert not second.sensors
    first.build()
    first.step()
    assert robot.name == "left"
    assert robot.entity is first.entities["left"]
    copy = second.add_robot(type(robot)(robot.options), name="right")
    assert copy is not robot
    assert list(second.modules) == ["right"]


def test_module_that_could_not_be_added_can_be_added_later():
    scene = sn.Scene()
    cart = Cart()
    scene.add_object(sn.Box(), name="cart")
    with pytest.raises(sn.errors.DuplicateNameError, match="'cart'"):
        scene.add_module("cart", cart)
    assert scene.add_module("wagon", cart) is cart


def test_modules_are_recreated_from_contents():
    scene = sn.Scene()
    scene.add_module("cart", Cart(mass=2.0))
    contents = json.loads(json.dumps(scene.contents))
    assert contents[0]["module"]["module"].endswith(":Cart")
    earlier = json.loads(json.dumps(contents).replace('"module"', '"part"'))  # as earlier versions wrote it
    for form in (contents, earlier):
        again = sn.Scene.from_contents(form)
        assert again.modules["cart"].options == CartOptions(mass=2.0)
        assert list(again.sensors) == ["cart_imu", "cart_clock"]
