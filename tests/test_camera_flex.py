"""Deformables in the path tracer: ropes, cloth and soft bodies, compared with the rasterizer and closed forms."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cameras import RaytracerCamera

pytest.importorskip("mitsuba", reason="Mitsuba is not installed: pip install 'sensorium[photoreal]'")

from gl import needs_gl

from sensorium.cameras.pathtrace.flexes import FlexMesh
from sensorium.cameras.pathtrace.renderer import _use_variant

CLOTH = """<mujoco><worldbody>
  <flexcomp name="cloth" type="grid" count="6 6 1" spacing="0.2 0.2 0.2" pos="0 0 1" radius="0.01" dim="2" mass="1"
    rgba="0.9 0.1 0.1 1"><edge equality="true"/><contact selfcollide="none"/></flexcomp></worldbody></mujoco>"""
SOLID = """<mujoco><worldbody>
  <flexcomp name="solid" type="grid" count="4 4 4" spacing="0.1 0.1 0.1" pos="0 0 1" radius="0.01" dim="3" mass="1"
    rgba="0.1 0.9 0.1 1"><edge equality="true"/><contact selfcollide="none"/></flexcomp></worldbody></mujoco>"""
ROPE = """<mujoco><worldbody>
  <flexcomp name="rope" type="grid" count="9 1 1" spacing="0.1 0.1 0.1" pos="0 0 1" radius="0.03" dim="1" mass="1"
    rgba="0.1 0.1 0.9 1"><edge equality="true"/><contact selfcollide="none"/></flexcomp></worldbody></mujoco>"""
ABOVE = {"pos": (0, 0, 3), "quat": (1, 0, 0, 0), "resolution": (48, 48), "fov": 30}
OUTPUTS = ("rgb", "depth", "segmentation")


def build(model, *cameras, n_envs=1):
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(model, name="soft")
    sensors = [scene.add_sensor(camera) for camera in cameras]
    scene.build(n_envs=n_envs)
    return scene, *sensors


@pytest.mark.parametrize(("model", "colour"), [(CLOTH, 0), (SOLID, 1)], ids=["cloth", "solid"])
@needs_gl
def test_deformables_agree_with_the_rasterizer(model, colour):
    traced = RaytracerCamera(uuid="traced", **ABOVE, samples=16, outputs=OUTPUTS)
    drawn = sn.RasterizerCamera(uuid="drawn", **ABOVE, outputs=OUTPUTS, quality="high", anti_aliasing=0)
    scene, traced, drawn = build(model, traced, drawn, n_envs=2)
    scene.step(20)
    one, other = traced.read_ground_truth(), drawn.read_ground_truth()
    hit = torch.isfinite(one.depth)
    assert 0.01 < hit.float().mean() < 0.9
    assert (hit == torch.isfinite(other.depth)).float().mean() > 0.97  # silhouettes
    both = hit & torch.isfinite(other.depth)
    assert (one.depth - other.depth)[both].abs().median() < 1e-3
    assert (one.segmentation[hit] == torch.tensor([0, -1], dtype=torch.int32)).all()
    assert one.rgb[both].double().mean(0).argmax() == colour
    scene.close()


def test_rope_is_a_row_of_tubes_and_balls():
    """Nine vertices along x, 0.1 m apart, with a radius of 0.03 m, seen from above."""
    scene, camera = build(ROPE, RaytracerCamera(**ABOVE, samples=16, outputs=OUTPUTS))
    data = camera.read()
    focal = 24 / np.tan(np.radians(15))
    x, y = np.meshgrid((np.arange(48) + 0.5 - 24) / focal, (np.arange(48) + 0.5 - 24) / focal)
    hit = torch.isfinite(data.depth[0]).numpy()
    along = np.clip(np.abs(2 * x) - 0.4, 0, None)  # distance from the rope's end, at its height
    away = np.hypot(along, 2 * y)
    assert hit[away < 0.026].all()
    assert not hit[away > 0.032].any()
    inside = (np.abs(2 * x) < 0.39) & (np.abs(2 * y) < 0.02)
    want = 2 - np.sqrt(0.03**2 - (2 * y) ** 2, where=inside, out=np.zeros_like(y))
    np.testing.assert_allclose(data.depth[0].numpy()[inside], want[inside], atol=2e-3)
    assert data.rgb[0][torch.from_numpy(inside)].double().mean(0).argmax() == 2
    scene.close()


def test_each_flex_has_its_own_material():
    def cloth(name, x, look):
        return f'''<flexcomp name="{name}" type="grid" count="3 3 1" spacing=".1 .1 .1" pos="{x} 0 1" dim="2" mass="1"
            {look}>
        <edge equality="true"/><contact selfcollide="none"/></flexcomp>'''

    parts = ("red", -0.4, 'material="red"'), ("blue", 0, 'material="blue"'), ("hidden", 0.4, 'material="clear"')
    model = f"""<mujoco><asset><material name="red" rgba="1 0 0 1"/><material name="blue" rgba="0 0 1 1"/>
        <material name="clear" rgba="1 1 1 0"/></asset>
        <worldbody>{"".join(cloth(*part) for part in parts)}</worldbody></mujoco>"""
    scene, camera = build(model, RaytracerCamera(**ABOVE, samples=4, outputs=("rgb", "depth")))
    data = camera.read()
    columns = [round(24 + x / 2 * 24 / np.tan(np.radians(15))) for _, x, _ in parts]  # 2 m below the camera
    assert [int(data.rgb[0, 24, column].argmax()) for column in columns[:2]] == [0, 2]
    assert [bool(torch.isfinite(data.depth[0, 24, column])) for column in columns] == [True, True, False]
    scene.close()


def test_flat_cloth_has_its_radius_and_moves_in_its_env():
    scene, camera = build(CLOTH, RaytracerCamera(**ABOVE, samples=4, outputs=("depth", "normals")), n_envs=2)
    first = camera.read().depth[:, 24, 24]
    assert float((first - 1.99).abs().max()) < 1e-4  # 3 m minus its height and its radius
    torch.testing.assert_close(camera.read().normals[0, 24, 24], torch.tensor([0.0, 0.0, -1.0]), atol=1e-5, rtol=0)
    scene.step(20)
    state = scene.get_state()
    fallen = float(scene.world.bind("flexvert_xpos")[1, :, 2].mean())
    assert fallen < 0.9
    assert float(camera.read().depth[1, 24, 24]) == pytest.approx(3 - fallen - 0.01, abs=2e-3)
    scene.reset([0])
    depth = camera.read().depth[:, 24, 24]
    assert float(depth[0]) == pytest.approx(1.99, abs=1e-4)
    assert float(depth[1]) == pytest.approx(3 - fallen - 0.01, abs=2e-3)
    scene.set_state(state)
    assert float(camera.read().depth[0, 24, 24]) == pytest.approx(3 - fallen - 0.01, abs=2e-3)
    scene.close()


@pytest.mark.parametrize(("model", "volume"), [(CLOTH, 0.02), (SOLID, None)], ids=["cloth", "solid"])
def test_surfaces_are_closed_and_face_outward(model, volume):
    import mujoco

    compiled = mujoco.MjModel.from_xml_string(model)
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    with _use_variant("scalar_rgb") as mi:
        flex = FlexMesh(mi, compiled, 0)
    corners, normals = flex._place_surface(data.flexvert_xpos)
    faces = corners[flex._surface.faces]
    across = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
    inside = np.einsum("ij,ij->", faces[:, 0], across) / 6
    if volume is None:
        assert 0.3**3 < inside < 0.32**3  # edges of 0.3 m, and up to the radius around them
    else:
        assert inside == pytest.approx(1.0 * 1.0 * volume, rel=1e-6)  # 1 m x 1 m, twice the radius thick
    toward = np.einsum("fcx,fx->fc", normals[flex._surface.faces], across)
    assert (toward > 0).all()
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-9)


def test_skins_and_tendons_are_named_in_warnings():
    model = """<mujoco><worldbody>
    <body name="a"><joint type="slide"/><geom size=".1"/><site name="s" pos="0 0 .2"/></body>
    <body name="b" pos="0 0 1"><joint name="turn" type="hinge"/><geom size=".1"/><site name="t"/></body></worldbody>
    <tendon><spatial name="cord"><site site="s"/><site site="t"/></spatial>
    <fixed name="coupling"><joint joint="turn" coef="1"/></fixed></tendon></mujoco>"""
    scene = sn.Scene()
    scene.add_object(model, name="pair")
    scene.add_sensor(RaytracerCamera(lookat=(1, 0, 0), resolution=(4, 4)))
    with pytest.warns(UserWarning, match="does not draw tendons: pair/cord will not be visible"):
        scene.build()
    scene.close()
