"""Elastomer pads against closed forms."""

import numpy as np
import pytest
from touch_scenes import DT, place, press_scene

from sensorium.sensors.touch.elastomer import ElastomerDisplacement


def gel_scene(geom: str = 'type="sphere" size="0.004"', **options):
    scene = press_scene(geom)
    gel = scene.add_sensor(
        ElastomerDisplacement(
            **({"link": "pad", "pos": (0, 0, 0.01), "grid": (17, 21), "size": (0.021, 0.017)} | options)
        )
    )
    scene.build()
    return scene, gel


def test_gel_does_not_move_without_contact():
    scene, gel = gel_scene()
    place(scene, z=0.0041)
    scene.step()
    assert gel.read().shape == (1, 17, 21, 3)
    assert not gel.read().any()


def test_dilation_is_outward_symmetric_and_decays():
    scene, gel = gel_scene(dilation_length=0.0015)
    place(scene, z=0.0035)
    scene.step()
    u = gel.read()[0].double().numpy()
    assert u[8, 10, 2] == pytest.approx(-0.0005, abs=1e-8)  # 0.5 mm deep in the middle
    assert u[..., 0] == pytest.approx(-u[:, ::-1, 0], abs=1e-9)
    assert u[..., 0] == pytest.approx(u[::-1, :, 0], abs=1e-9)
    assert u[..., 1] == pytest.approx(-u[::-1, :, 1], abs=1e-9)
    assert u[4:13, 6:15, 0] == pytest.approx(np.swapaxes(u[4:13, 6:15, 1], 0, 1), abs=1e-9)  # symmetric in x and y
    along = u[8, 11:, 0]
    assert (along > 0).all()
    peak = int(along.argmax())
    assert 0 < peak < 4
    assert (np.diff(along[peak:]) < 0).all()
    assert along[-1] < 1e-3 * along[peak]


def test_one_indented_marker_has_the_documented_kernel():
    """A needle presses one marker; all displacements follow the formula of the options."""
    nu, thickness, length = 0.45, 0.003, 0.002
    scene, gel = gel_scene(
        'type="box" size="0.0004 0.0004 0.001"', poisson_ratio=nu, thickness=thickness, dilation_length=length
    )
    depth = 0.0002
    place(scene, z=0.001 - depth)
    scene.step()
    u = gel.read()[0].double().numpy()
    assert (u[..., 2] != 0).sum() == 1
    y, x = np.meshgrid((np.arange(17) - 8) * 0.001, (np.arange(21) - 10) * 0.001, indexing="ij")
    scale = 2 * nu * 1e-6 / (2 * np.pi * thickness) * depth / length**2 * np.exp(-(x**2 + y**2) / (2 * length**2))
    assert u[..., 0] == pytest.approx(scale * x, abs=1e-11)
    assert u[..., 1] == pytest.approx(scale * y, abs=1e-11)


def test_dilation_is_linear_in_depth_inverse_thickness_and_poisson_ratio():
    needle = 'type="box" size="0.003 0.003 0.002"'

    def at(depth, **options):
        scene, gel = gel_scene(needle, **options)
        place(scene, z=0.002 - depth)
        scene.step()
        return gel.read()[0].double().numpy()

    base = at(0.0001)
    assert at(0.0003) == pytest.approx(3 * base, rel=1e-3, abs=1e-12)
    assert at(0.0001, thickness=0.008)[..., :2] == pytest.approx(base[..., :2] / 2, rel=1e-4, abs=1e-12)
    assert at(0.0001, poisson_ratio=0.24)[..., :2] == pytest.approx(base[..., :2] / 2, rel=1e-4, abs=1e-12)
    assert not at(0.0001, poisson_ratio=0.0)[..., :2].any()
    assert at(0.0015, thickness=0.001)[8, 10, 2] == pytest.approx(-0.001, abs=1e-9)  # at most the thickness


def test_drag_follows_the_body_until_it_slips():
    scene, gel = gel_scene('type="box" size="0.006 0.006 0.002"', poisson_ratio=0.0, shear_length=0.001, friction=0.5)
    place(scene, z=0.0018, velocity=(0.003, 0.004, 0, 0))  # 0.2 mm deep
    limit = 0.5 * 2 * 0.0002
    for step in range(7):
        scene.step()
        u = gel.read()[0].double().numpy()
        way = min(0.005 * DT * step, limit)
        assert u[8, 10, :2] == pytest.approx([0.6 * way, 0.8 * way], rel=1e-3, abs=1e-12)
    assert way == limit
    assert np.linalg.norm(u[0, 0, :2]) < 0.05 * limit  # drag decays away from the contact
    scene, gel = gel_scene('type="box" size="0.006 0.006 0.002"', poisson_ratio=0.0, shear_length=0.001)
    place(scene, z=0.0018, velocity=(0, 0, 0, 0.5))
    scene.step(count=4)
    u = gel.read()[0].double().numpy()
    turn = 0.5 * DT * 3
    assert u[8, 13, 1] == pytest.approx(turn * 0.003, rel=0.02)  # rotation about the middle
    assert u[11, 10, 0] == pytest.approx(-turn * 0.003, rel=0.02)
