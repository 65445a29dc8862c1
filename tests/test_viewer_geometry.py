"""Meshes of geoms that the viewers draw."""

import mujoco
import numpy as np
import pytest

from sensorium.viewer import geometry
from sensorium.viewer.mirror import multiply

SHAPES = """
<mujoco>
  <asset>
    <texture name="chess" type="2d" builtin="flat" rgb1="0.2 0.4 0.6" width="8" height="8"/>
    <material name="painted" texture="chess" rgba="1 0.5 1 1"/>
    <material name="plain" rgba="0.1 0.2 0.3 0.5"/>
    <mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1  1 0 1  0 1 1"/>
    <hfield name="hill" nrow="3" ncol="5" size="2 1 0.5 0.1" elevation="0 0 0 0 0  0 1 2 3 4  0 0 0 0 0"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <geom name="sheet" type="plane" size="1 2 1"/>
    <geom name="box" type="box" size="0.1 0.2 0.3" material="plain"/>
    <geom name="ball" type="sphere" size="0.4" material="painted"/>
    <geom name="egg" type="ellipsoid" size="0.1 0.2 0.4" rgba="1 0 0 1"/>
    <geom name="drum" type="cylinder" size="0.3 0.5"/>
    <geom name="pill" type="capsule" size="0.2 0.5"/>
    <geom name="pill2" type="capsule" size="0.2 0.5" pos="1 0 0"/>
    <geom name="pill3" type="capsule" size="0.2 0.6" group="3"/>
    <geom name="wedge" type="mesh" mesh="wedge"/>
    <geom name="hill" type="hfield" hfield="hill"/>
    <geom name="unseen" type="sphere" size="0.4" rgba="1 0 0 0"/>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def shapes():
    model = mujoco.MjModel.from_xml_string(SHAPES)
    found = {}
    for part in geometry.geom_batches(model):
        for index, geom in enumerate(part.geoms):
            found[model.geom(geom).name] = (part, part.mesh.vertices * part.scales[index], part.rgba[index])
    return found


def volume(vertices, faces):
    """Return the volume of a closed surface whose faces are counter-clockwise from outside."""
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    return float((np.cross(a, b) * c).sum() / 6)


@pytest.mark.parametrize(
    ("name", "half", "content"),
    [
        ("box", (0.1, 0.2, 0.3), 8 * 0.1 * 0.2 * 0.3),
        ("ball", (0.4, 0.4, 0.4), 4 / 3 * np.pi * 0.4**3),
        ("egg", (0.1, 0.2, 0.4), 4 / 3 * np.pi * 0.1 * 0.2 * 0.4),
        ("drum", (0.3, 0.3, 0.5), np.pi * 0.3**2),
        ("pill", (0.2, 0.2, 0.7), np.pi * 0.2**2 * 1.0 + 4 / 3 * np.pi * 0.2**3),
        ("pill3", (0.2, 0.2, 0.8), np.pi * 0.2**2 * 1.2 + 4 / 3 * np.pi * 0.2**3),
    ],
)
def test_primitive_meshes_have_the_right_extents_and_volume(shapes, name, half, content):
    part, vertices, _ = shapes[name]
    np.testing.assert_allclose(vertices.max(axis=0), half, rtol=0.01)
    np.testing.assert_allclose(vertices.min(axis=0), np.negative(half), rtol=0.01)
    assert volume(vertices, part.mesh.faces) == pytest.approx(content, rel=0.02)


def test_surfaces_of_meshes_planes_and_height_fields(shapes):
    part, vertices, _ = shapes["wedge"]
    assert volume(vertices, part.mesh.faces) == pytest.approx(0.5, rel=1e-5)
    assert len(vertices) == 6 * 3  # one vertex for each side that meets there: all edges are sharp
    _, vertices, _ = shapes["sheet"]
    np.testing.assert_allclose(np.ptp(vertices, axis=0), (2, 4, 0))
    part, vertices, _ = shapes["hill"]
    np.testing.assert_allclose(np.ptp(vertices, axis=0), (4, 2, 0.5))
    assert vertices[vertices[:, 2].argmax()] == pytest.approx((2, 0, 0.5))  # the maximum is the last of the middle row
    a, b, c = (vertices[part.mesh.faces[:, corner]] for corner in range(3))
    assert (np.cross(b - a, c - a)[:, 2] > 0).all()


def test_geoms_of_one_shape_share_a_mesh_and_keep_their_colours(shapes):
    assert "unseen" not in shapes
    assert "floor" not in shapes
    assert shapes["ball"][0] is shapes["egg"][0]
    assert shapes["pill"][0] is shapes["pill2"][0]
    assert shapes["pill"][0] is not shapes["pill3"][0]
    assert shapes["pill3"][0].collision
    assert not shapes["pill"][0].collision
    np.testing.assert_allclose(shapes["egg"][2], (1, 0, 0, 1))
    np.testing.assert_allclose(shapes["box"][2], (0.1, 0.2, 0.3, 0.5), atol=1e-6)
    np.testing.assert_allclose(shapes["ball"][2], (0.2, 0.2, 0.6, 1), atol=0.01)  # texture times material
    model = mujoco.MjModel.from_xml_string(SHAPES)
    assert [model.geom(geom).name for geom in geometry.infinite_planes(model)] == ["floor"]


def test_quaternion_products_equal_mujoco():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 4))
    expected = np.zeros((5, 4))
    for row in range(5):
        mujoco.mju_mulQuat(expected[row], a[row], b[row])
    np.testing.assert_allclose(multiply(a, b), expected, atol=1e-12)
