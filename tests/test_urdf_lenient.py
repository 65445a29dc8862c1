"""URDF files that are not read strictly, COLLADA and text STL meshes, and six robots of other projects."""

import re

import mujoco
import numpy as np
import pytest
from PIL import Image
from test_urdf import ARM, FINGER, LIMIT, _for_mujoco, inertial, shipped, with_mesh

import sensorium as sn
from sensorium.robots import register_urdf
from sensorium.worlds.urdf import find, read_urdf
from sensorium.worlds.urdf.collada import merge, read_collada

SIZE = np.array([0.2, 0.4, 0.6])
QUADS = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
"""Sides of a box, counter-clockwise from outside; corner k has the bits of k as (x, y, z)."""
TRIANGLES = [[a, b, c] for a, b, c, _ in QUADS] + [[a, c, d] for a, _, c, d in QUADS]
CORNERS = np.array([[(k >> axis & 1) - 0.5 for axis in range(3)] for k in range(8)]) * SIZE


def words(values):
    return " ".join(str(value) for value in np.ravel(values))


def collada(primitives, node="", unit="", points=CORNERS, effects="", materials="", extra=""):
    """Return a COLLADA file of a box; every corner has a normal index, too, which readers must skip."""
    return f"""<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset>{unit}<up_axis>Y_UP</up_axis></asset>
  <library_effects>{effects}</library_effects><library_materials>{materials}</library_materials>
  <library_geometries><geometry id="box"><mesh>
    <source id="places"><float_array id="numbers" count="{3 * len(points)}">{words(points)}</float_array>
      <technique_common><accessor source="#numbers" count="{len(points)}" stride="3"/></technique_common></source>
    <vertices id="corners"><input semantic="POSITION" source="#places"/></vertices>
    {primitives}
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="scene"><node>{node}
    <instance_geometry url="#box">{extra}</instance_geometry></node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#scene"/></scene>
</COLLADA>""".encode()


INPUTS = '<input semantic="VERTEX" source="#corners" offset="0"/><input semantic="NORMAL" source="#none" offset="1"/>'


def indices(corners):
    """Return corners with an index of a normal after each."""
    return words(np.column_stack([np.ravel(corners), np.zeros(np.size(corners), int)]))


BOXES = {
    "triangles": f'<triangles count="12">{INPUTS}<p>{indices(TRIANGLES)}</p></triangles>',
    "polylist": f'<polylist count="6">{INPUTS}<vcount>4 4 4 4 4 4</vcount><p>{indices(QUADS)}</p></polylist>',
    "polygons": f"<polygons>{INPUTS}{''.join(f'<p>{indices(quad)}</p>' for quad in QUADS)}</polygons>",
    "trifans": f"<trifans>{INPUTS}{''.join(f'<p>{indices(quad)}</p>' for quad in QUADS)}</trifans>",
    "tristrips": "<tristrips>"
    + INPUTS
    + "".join(f"<p>{indices([a, b, d, c])}</p>" for a, b, c, d in QUADS)
    + "</tristrips>",
}


def volume(mesh):
    """Return the signed volume of a closed mesh: negative if its triangles are inside out."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    return np.einsum("ni,ni->n", a, np.cross(b, c)).sum() / 6


@pytest.mark.parametrize("kind", BOXES)
def test_boxes_of_all_elements_are_read(kind):
    (mesh,) = read_collada(collada(BOXES[kind]), "box.dae")
    assert mesh.faces.shape == (12, 3)
    assert np.ptp(mesh.vertices, axis=0) == pytest.approx(SIZE)
    assert volume(mesh) == pytest.approx(SIZE.prod())
    assert mesh.rgba is None


def test_units_and_transforms_are_applied_in_order_and_mirrors_keep_the_outside():
    node = "<translate>1 2 3</translate><rotate>0 0 1 90</rotate><scale>2 1 -1</scale>"
    matrix = "<matrix>0 -1 0 1  2 0 0 2  0 0 -1 3  0 0 0 1</matrix>"
    for place in (node, matrix):
        unit = '<unit name="centimetre" meter="0.01"/>'
        (mesh,) = read_collada(collada(BOXES["polylist"], node=place, unit=unit), "box.dae")
        assert mesh.vertices.mean(0) == pytest.approx([0.01, 0.02, 0.03])
        assert np.ptp(mesh.vertices, axis=0) == pytest.approx(0.01 * SIZE[[1, 0, 2]] * [1, 2, 1])
        assert volume(mesh) == pytest.approx(2e-6 * SIZE.prod())


def painted():
    """Return a box with two red sides, two with a texture and two without a material."""
    sides = [
        f'<polylist {material} count="2">{INPUTS}<vcount>4 4</vcount><p>{indices(quads)}</p></polylist>'
        for material, quads in zip(
            ('material="paint"', 'material="photo"', ""), (QUADS[:2], QUADS[2:4], QUADS[4:]), strict=True
        )
    ]
    lambert = "<profile_COMMON>{}<technique><lambert><diffuse>{}</diffuse></lambert></technique></profile_COMMON>"
    sampler = (
        '<newparam sid="surface"><surface><init_from>picture</init_from></surface></newparam>'
        '<newparam sid="sampler"><sampler2D><source>surface</source></sampler2D></newparam>'
    )
    texture = lambert.format(sampler, '<texture texture="sampler" texcoord="UV"/>')
    red = lambert.format("", "<color>1 0.25 0 1</color>")
    effects = f'<effect id="red">{red}</effect><effect id="shot">{texture}</effect>'
    materials = "".join(
        f'<material id="{name}"><instance_effect url="#{effect}"/></material>'
        for name, effect in (("m1", "red"), ("m2", "shot"))
    )
    materials += '</library_materials><library_images><image id="picture"><init_from>photo.png</init_from></image>'
    bound = "".join(
        f'<instance_material symbol="{symbol}" target="#{name}"/>'
        for symbol, name in (("paint", "m1"), ("photo", "m2"))
    )
    extra = f"<bind_material><technique_common>{bound}</technique_common></bind_material>"
    return collada("".join(sides), effects=effects, materials=materials, extra=extra).replace(
        b"</image></library_materials>", b"</image></library_images>"
    )


LAUGHS = b"""<!DOCTYPE COLLADA [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>"""
"""Entities that are made of others many times, a small file that would fill the memory."""
DOUBLED = '<node id="n0"/>' + "".join(
    f'<node id="n{k + 1}"><instance_node url="#n{k}"/><instance_node url="#n{k}"/></node>' for k in range(40)
)
"""Nodes that each instance the one before twice: 2^40 in all."""


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"not xml", "not a valid COLLADA file: .*malformed XML"),
        (b"<robot/>", "its root is <robot>"),
        (collada(""), "it has no triangles"),
        (collada(BOXES["triangles"].replace("<p>0", "<p>8")), "index of <triangles> is out of range"),
        (collada(BOXES["triangles"].replace("<p>0", "<p>x")), "invalid literal"),
        (collada(BOXES["polylist"].replace("<vcount>4", "<vcount>5")), "<vcount> does not fit <p>"),
        (collada(BOXES["triangles"], points=np.full((8, 3), np.nan)), "three finite numbers"),
        (collada(BOXES["triangles"]).replace(b'source="#places"', b'source="#none"'), "KeyError 'none'"),
        (collada("", node='<node id="n"><instance_node url="#n"/></node>'), "nested too deeply, or too many"),
        (collada("", node=DOUBLED), "nested too deeply, or too many"),
        (collada(BOXES["polylist"].replace("<vcount>4 4", "<vcount>1000000000000 -999999999992")), "does not fit"),
        (collada(BOXES["triangles"].replace("<p>0", f"<p>{'9' * 30}")), "too large"),
        (collada(BOXES["triangles"]).replace(b'stride="3"', b'stride="0"'), "by zero"),
        (collada(BOXES["triangles"]).replace(b'stride="3"', b'stride="1000000000000000000000"'), "COLLADA"),
        (collada(BOXES["triangles"]).replace(b'semantic="POSITION"', b'semantic="x"'), "needs an input POSITION"),
        (collada(BOXES["triangles"], node="<rotate>0 0 0 90</rotate>"), "not finite, or too large"),
        (collada(BOXES["triangles"], unit='<unit meter="1e300"/>'), "not finite, or too large"),
        (
            collada(BOXES["triangles"], node='<instance_geometry url="#box"/>' * 20_000),
            "nested too deeply, or too many",
        ),
        (painted().replace(b"<color>1 0.25 0 1", b"<color>nan 0.25 0 1"), "<color> must be three finite numbers"),
        (LAUGHS + collada(BOXES["triangles"]).split(b"?>", 1)[1], "entity declarations are not supported"),
        (collada(BOXES["triangles"], node="<skew>0 0 0 0 0 0 0</skew>"), "<skew> is not supported"),
    ],
)
def test_invalid_collada_raises_value_error(content, match):
    with pytest.raises(ValueError, match=match):
        read_collada(content, "box.dae")


def test_collada_files_with_too_many_triangles_are_refused(monkeypatch):
    content = collada(BOXES["triangles"], node='<instance_geometry url="#box"/>' * 9)
    assert sum(len(mesh.faces) for mesh in read_collada(content, "box.dae")) == 120
    monkeypatch.setattr("sensorium.worlds.urdf.collada._MAX_TRIANGLES", 119)
    with pytest.raises(ValueError, match="more than 119 triangles"):
        read_collada(content, "box.dae")


def test_colours_of_materials_are_kept_and_textures_become_their_mean(tmp_path):
    (tmp_path / "box.dae").write_bytes(painted())
    Image.fromarray(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)).save(tmp_path / "photo.png")
    parts = read_collada(painted(), "box.dae")
    assert [(part.rgba, part.texture) for part in parts] == [
        ((1.0, 0.25, 0.0, 1.0), ""),
        (None, "photo.png"),
        (None, ""),
    ]
    assert volume(merge(parts)) == pytest.approx(SIZE.prod())
    (tmp_path / "r.urdf").write_text(with_mesh("box.dae").replace("collision", "visual"))
    model = read_urdf(tmp_path / "r.urdf")
    assert model.report.notes == ("rendered in its mean colour: the texture photo.png of box.dae",)
    compiled = model.spec().compile()
    assert compiled.geom_rgba == pytest.approx(np.array([[1, 0.25, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0.5, 1]]))
    (tmp_path / "photo.png").write_bytes(b"no image")
    assert read_urdf(tmp_path / "r.urdf").spec().compile().ngeom == 3


def test_the_material_of_the_urdf_replaces_those_of_the_mesh(tmp_path):
    (tmp_path / "box.dae").write_bytes(painted())
    text = with_mesh("box.dae").replace("collision", "visual")
    green = '</geometry><material name="green"><color rgba="0 1 0 1"/></material>'
    (tmp_path / "r.urdf").write_text(text.replace("</geometry>", green))
    compiled = read_urdf(tmp_path / "r.urdf").spec().compile()
    assert compiled.ngeom == 1
    assert compiled.geom_rgba[0].tolist() == [0, 1, 0, 1]


def text_stl():
    lines = ["solid box"]
    for face in TRIANGLES:
        lines += ["facet normal 0 0 0", " outer loop", *(f"  vertex {words(CORNERS[k])}" for k in face)]
        lines += [" endloop", "endfacet"]
    return "\n".join([*lines, "endsolid box"]).encode()


@pytest.mark.parametrize(
    ("name", "content"), [("box.dae", collada(BOXES["triangles"])), ("box.stl", text_stl())], ids=["dae", "stl"]
)
@pytest.mark.parametrize("approximate", [None, "box"])
def test_collision_meshes_of_other_formats_are_those_of_a_box(tmp_path, name, content, approximate):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "r.urdf").write_text(with_mesh(name, scale="1 1 2"))
    model = read_urdf(tmp_path / "r.urdf", approximate=approximate)
    compiled = model.spec().compile()
    assert compiled.ngeom == 1
    assert 2 * np.sort(compiled.geom_aabb[0, 3:]) == pytest.approx(np.sort(SIZE * [1, 1, 2]), rel=1e-5)
    if approximate:
        assert model.report.replacements[0].error == pytest.approx(0, abs=1e-5)


# -- strict=False -----------------------------------------------------------------------------------------------------

TOLERATED = [
    ("<child", '<child colour="red"', "<child> has no attribute 'colour'; it is ignored"),
    ("<axis", "<plug/><axis", "<joint> has no <plug>; it is ignored"),
    (' name="arm"', "", "<robot> needs the attribute 'name'; it is taken as 'robot'"),
    (' effort="50" velocity="3"', "", "<limit> needs the attribute 'effort'; it is taken as '0'"),
    ('<material name="orange"/>', '<material name="oragne"/>', "there is no material named 'oragne'; the shape has no"),
    ("1 0.5 0 1", "2 0.5 0 1", "rgba of <color> must be in [0, 1], got '2 0.5 0 1'; it is limited"),
    ('damping="0.4"', 'damping="-1"', "damping must be >= 0, got -1.0; it is taken as 0"),
    (LIMIT, "", "joint 'shoulder': a revolute joint needs <limit>; it turns without limits"),
    ('lower="-2" upper="1.5"', 'lower="0" upper="0"', "got lower=0.0 and upper=0.0; it is fixed"),
    ('<mimic joint="grip"', '<mimic joint="x"', "which does not exist; there are"),
    (
        '<mimic joint="grip"',
        '<mimic joint="mount"',
        "'mount' is fixed; a mimic needs joints with one axis; it moves by itself",
    ),
    ('iyy="0.021"', 'iyy="0.024"', "repaired: link 'upper' has larger moments of inertia now"),
    (
        FINGER,
        '<link name="finger"/>',
        "link 'finger' moves, so it needs <inertial> with a mass; its mass is taken as 1 g",
    ),
    ('<cylinder radius="0.1" length="0.1"/>', '<mesh filename="a.ply"/>', "'a.ply' cannot be used: its format is not"),
]


@pytest.mark.parametrize(("old", "wrong", "text"), TOLERATED)
def test_files_that_are_not_strict_load_with_a_warning(old, wrong, text):
    assert old in ARM
    changed = ARM.replace(old, wrong, 1)
    with pytest.raises(sn.errors.ModelError, match=r"strict=False accepts (it|all of them|\d of \d), with a warning$"):
        read_urdf(changed)
    with pytest.warns(UserWarning, match="the URDF text was changed to load it") as caught:
        model = read_urdf(changed, strict=False)
    assert text in str(caught[0].message)
    assert any(text in note for note in model.report.notes)
    compiled = model.spec().compile()
    data = mujoco.MjData(compiled)
    mujoco.mj_step(compiled, data, 20)
    assert np.isfinite(data.qpos).all()


def test_equal_problems_are_one_line_and_clean_files_do_not_warn():
    changed = ARM.replace("<child", '<child colour="red"')
    first = 1 + ARM[: ARM.index("<child")].count("\n")
    with pytest.warns(UserWarning, match="was changed to load it") as caught:
        read_urdf(changed, strict=False)
    (line,) = str(caught[0].message).split("\n")[1:]
    more = ARM.count("<child") - 1
    assert line.strip() == f"line {first} and {more} more: <child> has no attribute 'colour'; it is ignored"
    assert read_urdf(ARM, strict=False).xml == read_urdf(ARM).xml  # warnings are errors here


@pytest.mark.parametrize(
    ("old", "wrong", "text"),
    [
        ('<child link="upper"/>', '<child link="uper"/>', "child link 'uper' does not exist"),
        ('type="revolute"', 'type="hinge"', "no joint type 'hinge'"),
        ('lower="-2"', 'lower="2"', "lower must be < upper"),
        ('<box size="0.05 0.06 0.3"/>', '<mesh filename="package://none/a.dae"/>', "Give its folder with search=[...]"),
        ('<box size="0.05 0.06 0.3"/>', '<mesh filename="a.ply"/>', "its format is not supported"),
        ('<mass value="2.0"/>', '<mass value="heavy"/>', "finite number, got 'heavy'"),
    ],
)
def test_what_cannot_be_ignored_raises_also_without_strict(old, wrong, text):
    with pytest.raises(sn.errors.ModelError) as caught:
        read_urdf(ARM.replace(old, wrong, 1), strict=False)
    assert text in str(caught.value)
    assert "strict=False" not in str(caught.value)


def test_visual_meshes_that_cannot_be_compiled_are_not_rendered(tmp_path):
    (tmp_path / "bad.obj").write_text("not a mesh")
    shapes = '<visual><geometry><mesh filename="bad.obj"/></geometry></visual><collision><geometry><box size="1 1 1"/>'
    text = f'<robot name="m"><link name="body">{inertial()}{shapes}</geometry></collision></link></robot>'
    (tmp_path / "r.urdf").write_text(text)
    with pytest.raises(sn.errors.ModelError, match=r"'bad\.obj' cannot be used"):
        read_urdf(tmp_path / "r.urdf")
    with pytest.warns(UserWarning, match=r"'bad\.obj' cannot be used: .*; it is not rendered"):
        assert read_urdf(tmp_path / "r.urdf", strict=False).spec().compile().ngeom == 1


def test_models_that_mujoco_cannot_load_name_register_urdf(tmp_path):
    (tmp_path / "r.urdf").write_text(with_mesh("package://mine/box.dae"))
    scene = sn.Scene()
    for model in (tmp_path / "r.urdf", f"<!-- mine -->\n{with_mesh('package://mine/box.stl')}"):
        with pytest.raises(sn.errors.ModelError, match=r"sn\.robots\.register_urdf\(name, file, strict=False\) finds"):
            scene.add_robot(model)
    assert not scene.entities


def _possible(text):
    """Return a URDF with inertias that MuJoCo accepts, since it refuses moments of 0 by rounding."""
    raised = re.sub(r'(i(?:xx|yy|zz)=)"([^"]+)"', lambda match: f'{match[1]}"{float(match[2]) + 1e-9}"', text)
    return raised.replace("<compiler ", '<compiler balanceinertia="true" ')


@pytest.mark.parametrize(
    ("path", "joints"),
    [
        ("go1_description/urdf/go1.urdf", 12),
        ("go2_description/urdf/go2.urdf", 12),
        ("a1_description/urdf/a1.urdf", 12),
        ("solo_description/robots/solo12.urdf", 12),
        ("anymal_c_simple_description/urdf/anymal.urdf", 12),
        ("ur_description/urdf/ur5_robot.urdf", 6),
    ],
)
@pytest.mark.filterwarnings("ignore:.*was changed to load it")
def test_known_robots_load_in_one_call(path, joints, request):
    file, name = shipped(path), request.node.callspec.id.replace("/", "_").replace(".", "_")
    register_urdf(name, file, strict=False, free=joints == 12)
    model = find(name).model.spec().compile()
    reference = mujoco.MjSpec.from_string(_possible(_for_mujoco(file))).compile()
    assert model.nv == joints + 6 * (joints == 12)
    assert model.nu == joints
    assert reference.njnt == joints
    assert model.body_mass.sum() == pytest.approx(reference.body_mass.sum(), rel=1e-5)
    for joint in range(joints):
        name = reference.joint(joint).name
        assert model.joint(name).range == pytest.approx(reference.joint(joint).range, abs=1e-5)
        assert model.joint(name).axis == pytest.approx(reference.joint(joint).axis, abs=1e-5)
