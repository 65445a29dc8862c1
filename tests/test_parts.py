"""``scene.add_module``: parts that add several things, hold them together, and are added whole or not at all."""

import pytest
import torch

import sensorium as sn


class CartOptions(sn.Options):
    """Options of a cart."""

    mass: float = 1.0
    """Mass, kg."""


class Cart(sn.SceneModule[CartOptions]):
    """A box with an IMU under ``senses``, and a clock that it hangs nowhere."""

    options_type = CartOptions

    def attach(self, scene, name):
        self._box = scene.add_object(sn.Box(mass=self.options.mass), name=name, pos=(0, 0, 0.05), free=True)
        self.senses = {"imu": scene.add_sensor(sn.IMU(link=name, uuid=f"{name}_imu"))}
        scene.add_sensor(sn.Clock(uuid=f"{name}_clock"))
        scene.add_light("point", name=f"{name}_lamp", pos=(0, 0, 2))

    def start(self, scene):
        self.speed = sn.Buffer(torch.zeros(scene.n_envs), {"state"})


class Broken(Cart):
    """Fails when all has been added."""

    def attach(self, scene, name):
        super().attach(scene, name)
        raise RuntimeError("no wheels")


class Unstartable(Cart):
    """Fails once the scene is built."""

    broken = True

    def start(self, scene):
        if self.broken:
            raise RuntimeError("no fuel")
        super().start(scene)


def test_a_part_holds_what_it_added_and_the_scene_finds_it():
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
    assert scene.parts == {"cart": cart}
    assert scene.entities["cart"] is cart._box
    assert scene.model.body("cart").mass[0] == pytest.approx(2.0)
    again = Cart(CartOptions(**cart.options.model_dump(mode="json")))
    assert again.options == cart.options


def test_a_part_that_fails_leaves_the_scene_as_it_was():
    scene = sn.Scene()
    scene.add_module("first", Cart())
    with pytest.raises(RuntimeError, match="no wheels"):
        scene.add_module("second", Broken())
    assert list(scene.entities) == ["first"]
    assert list(scene.sensors) == ["first_imu", "first_clock"]
    assert list(scene.parts) == ["first"]
    second = scene.add_module("second", Cart())  # every name is free again, in the model too
    scene.build()
    assert scene.model.nlight == 2
    assert second.senses["imu"].read().lin_acc.shape == (1, 3)


def test_a_part_that_cannot_start_leaves_the_scene_unbuilt():
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


def test_bad_parts_are_refused():
    class Nested(Cart):
        def attach(self, scene, name):
            scene.add_module("inner", Cart())

    scene = sn.Scene()
    cart = scene.add_module("cart", Cart())
    with pytest.raises(sn.OptionError, match="takes a part"):
        scene.add_module("other", sn.Module())
    with pytest.raises(sn.DuplicateNameError, match="in the scene already"):
        scene.add_module("again", cart)
    with pytest.raises(sn.DuplicateNameError, match="'cart'"):
        scene.add_module("cart", Cart())
    with pytest.raises(sn.DuplicateNameError, match="'cart'"):
        scene.add_object(sn.Box(), name="cart")
    with pytest.raises(sn.OptionError, match="further parts"):
        scene.add_module("outer", Nested())
    with pytest.raises(sn.NameNotFoundError, match="did you mean 'cart'"):
        scene["carp"]
    scene.build()
    with pytest.raises(sn.AlreadyBuiltError):
        scene.add_module("late", Cart())
