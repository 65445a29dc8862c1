"""Depths along the normal against closed forms and against MuJoCo's rays, for every kind of geom."""

import mujoco
import numpy as np
import pytest
from touch_scenes import DT, place, positions, press_scene

import sensorium as sn
from sensorium.errors import OptionError
from sensorium.sensors.touch.contact_probe import ContactDepthProbe
from sensorium.sensors.touch.elastomer import ElastomerDisplacement
from sensorium.sensors.touch.tactile_array import TactileArray

MM = 1e-3
X, Y = np.meshgrid(np.linspace(-3, 3, 49) * MM, np.linspace(-3, 3, 49) * MM)
RHO = np.hypot(X, Y)


def mesh(name: str, vertices) -> str:
    """Return a mesh asset with these vertices (m)."""
    numbers = " ".join(f"{value:.9f}" for value in np.asarray(vertices).ravel())
    return f'<mesh name="{name}" vertex="{numbers}" inertia="convex"/>'


def ball_points(count: int) -> np.ndarray:
    """Return points that cover the unit sphere evenly (a Fibonacci lattice), (count, 3)."""
    i = np.arange(count) + 0.5
    z, angle = 1 - 2 * i / count, np.pi * (1 + np.sqrt(5)) * i
    return np.column_stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z])


def cap(radius: float, depth: float, rho: np.ndarray) -> np.ndarray:
    """Return the indentation by a ball (or a lying cylinder) at distances rho from its centre (axis), m."""
    below = np.sqrt(np.maximum(radius**2 - rho**2, 0))
    return np.where(rho < radius, np.maximum(depth - radius + below, 0), 0)


def indentations(geom: str, *heights: float, asset: str = "", thickness: float = 0.02, grid=(49, 49)):
    """Yield how deep an indenter with its centre at these heights indents a pad with markers at X and Y, (49, 49) m."""
    scene = press_scene(geom, asset)
    size = (6 * MM * grid[1] / (grid[1] - 1), 6 * MM * grid[0] / (grid[0] - 1))
    gel = scene.add_sensor(
        ElastomerDisplacement(link="pad", pos=(0, 0, 0.01), grid=grid, size=size, thickness=thickness)
    )
    scene.build()
    for z in heights:
        place(scene, z=z)
        scene.step()
        yield -gel.read()[0, ..., 2].double().numpy()


def check(geom: str, bottom: float, depths, expected, tolerance: float = 1e-5, **options) -> None:
    """Check the indentation by a geom, whose lowest point is ``bottom`` below its centre, against expected(depth)."""
    for d, found in zip(depths, indentations(geom, *(bottom - d for d in depths), **options), strict=True):
        assert found.max() > 0.99 * d
        assert found == pytest.approx(expected(d), abs=tolerance * d)


# -- closed forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1.5 * MM, 8 * MM])
def test_balls_and_lying_cylinders_up_to_one_radius(radius):
    """Depths are a spherical cap for a ball and a capsule that stands, and a circular segment for a lying cylinder."""
    depths = radius * np.array([0.02, 0.15, 0.5, 1.0])
    check(f'type="sphere" size="{radius}"', radius, depths, lambda d: cap(radius, d, RHO))
    check(f'type="capsule" size="{radius} 0.004"', 0.004 + radius, depths, lambda d: cap(radius, d, RHO))
    inside = abs(Y) < 1.51 * MM
    lying = f'size="{radius} 0.00151" euler="90 0 0"'
    check(f'type="cylinder" {lying}', radius, depths, lambda d: np.where(inside, cap(radius, d, abs(X)), 0))
    from_axis = np.hypot(X, np.maximum(abs(Y) - 1.51 * MM, 0))
    check(f'type="capsule" {lying}', radius, depths, lambda d: cap(radius, d, from_axis))


def test_a_small_ball_below_the_surface_leaves_its_whole_lower_half():
    """A ball of 1.5 mm that is pressed 2 mm deep: the markers beside its centre, too, are pushed below it."""
    (found,) = indentations('type="sphere" size="0.0015"', -0.5 * MM, thickness=0.004)
    lower = 0.5 * MM + np.sqrt(np.maximum((1.5 * MM) ** 2 - RHO**2, 0))
    apart = abs(RHO - 1.5 * MM) > 1e-9  # markers on the rim are decided by rounding
    assert found[apart] == pytest.approx(np.where(RHO < 1.5 * MM, lower, 0)[apart], abs=1e-8)


def test_flat_punches_press_every_marker_below_them():
    depths = MM * np.array([0.05, 0.5, 2.0, 3.2])
    check('type="box" size="0.0032 0.0032 0.005"', 0.005, depths, lambda d: np.full((7, 7), d), grid=(7, 7))
    below = (abs(X) < 1.6 * MM) & (abs(Y) < 2.1 * MM)
    check('type="box" size="0.0016 0.0021 0.005"', 0.005, depths, lambda d: np.where(below, d, 0))
    check('type="cylinder" size="0.00221 0.005"', 0.005, depths, lambda d: np.where(RHO < 2.21 * MM, d, 0))
    slope = np.tan(np.radians(10))
    tilted = 'type="box" size="0.02 0.02 0.005" euler="0 10 0"'
    check(tilted, 0.005 * np.hypot(1, slope), depths, lambda d: np.maximum(d + X * slope, 0))


@pytest.mark.parametrize("angle", [10, 45, 80])
def test_wedges_of_a_mesh(angle):
    """A wedge with this angle between axis and side has depths that fall linearly from its edge."""
    slope, high = 1 / np.tan(np.radians(angle)), 4 * MM
    corners = [(x, y, z) for y in (-0.05, 0.05) for x, z in ((0, 0), (-high / slope, high), (high / slope, high))]
    depths = MM * np.array([0.1, 0.5, 2.0])
    asset = mesh("wedge", corners)
    check('type="mesh" mesh="wedge"', 0, depths, lambda d: np.maximum(d - abs(X) * slope, 0), asset=asset)


def test_box_on_its_edge_and_ellipsoid():
    depths = MM * np.array([0.1, 2.0])
    on_edge = 'type="box" size="0.01 0.01 0.01" euler="0 45 0"'
    check(on_edge, 0.01 * np.sqrt(2), depths, lambda d: np.maximum(d - abs(X), 0))
    below = 3 * MM * np.sqrt(np.maximum(1 - (X / 6e-3) ** 2 - (Y / 2e-3) ** 2, 0))
    ellipsoid = 'type="ellipsoid" size="0.006 0.002 0.003"'
    check(ellipsoid, 0.003, depths, lambda d: np.maximum(d - 0.003 + below, 0))


def test_mesh_of_a_ball_is_within_one_percent():
    radius = 4 * MM
    asset = mesh("ball", radius * ball_points(4000))
    depths = radius * np.array([0.1, 0.5])
    check('type="mesh" mesh="ball"', radius, depths, lambda d: cap(radius, d, RHO), tolerance=0.01, asset=asset)


# -- other implementations ---------------------------------------------------------------------------------------------

SHAPES = {
    "sphere": 'type="sphere" size="0.025"',
    "capsule": 'type="capsule" size="0.01 0.02"',
    "cylinder": 'type="cylinder" size="0.02 0.01"',
    "box": 'type="box" size="0.03 0.02 0.01"',
    "ellipsoid": 'type="ellipsoid" size="0.03 0.02 0.005"',
    "mesh": 'type="mesh" mesh="cloud"',
    "hfield": 'type="hfield" hfield="bumps"',
}


@pytest.mark.parametrize("kind", list(SHAPES))
def test_depths_agree_with_rays_of_mujoco(kind):
    """In random poses, the depth is where a ray from behind the pad hits the geom from below."""
    rng = np.random.default_rng(4)
    cloud = mesh("cloud", rng.normal(size=(40, 3)) * (0.03, 0.02, 0.01))
    bumps = " ".join(f"{value:.6f}" for value in rng.random(15 * 12))
    fields = f'<hfield name="bumps" nrow="12" ncol="15" size="0.04 0.05 0.02 0.01" elevation="{bumps}"/>'
    checked = 0
    for _ in range(4):
        euler = rng.uniform(-180, 180, 3) if kind != "hfield" else np.array([180, 0, 0]) + rng.uniform(-40, 40, 3)
        pose = f'euler="{euler[0]} {euler[1]} {euler[2]}"'
        scene = press_scene(f"{SHAPES[kind]} {pose}", cloud + fields)
        options = {"link": "pad", "pos": (0, 0, 0.01), "size": (0.05, 0.05), "thickness": 0.09}
        gel = scene.add_sensor(ElastomerDisplacement(grid=(15, 15), **options))
        scene.build()
        place(scene, z=0.005)
        scene.step()
        found = -gel.read()[0, ..., 2].double().numpy().ravel()
        model, data = scene.model, mujoco.MjData(scene.model)
        data.qpos[:] = scene.world.bind("qpos")[0].numpy()
        mujoco.mj_forward(model, data)
        pad, hit = model.body("pad").id, np.zeros(1, np.int32)
        for point, depth in zip(positions(gel), found, strict=True):
            start = point - np.array([0, 0, 0.09])
            way = mujoco.mj_ray(model, data, start, np.array([0, 0, 1.0]), None, 1, pad, hit)
            expected = max(0.09 - way, 0) if way >= 0 else 0
            local = data.geom_xmat[-1].reshape(3, 3).T @ (point + np.array([0, 0, way - 0.09]) - data.geom_xpos[-1])
            if kind == "hfield" and way >= 0 and (np.abs(local[:2]) > (0.0399, 0.0499)).any():
                continue  # the sides of a height field are not surfaces
            assert depth == pytest.approx(expected, abs=1e-6)
            checked += expected > 0
    assert checked > 60


# -- bodies that are not above the pad ---------------------------------------------------------------------------------


def finger_scene(body: str, **pad):
    """Return readings of a pad on the front (+x) of an upright finger of 6 mm beside a body, and of its probes."""
    scene = sn.Scene(dt=DT, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.006, 0.02, 0.03)), name="finger", pos=(0, 0, 0.5))
    scene.add_object(f'<mujoco><worldbody><body name="thing">{body}</body></worldbody></mujoco>', name="thing")
    front = {"link": "finger", "euler": (0, np.pi / 2, 0)}
    options = {"grid": (5, 7), "size": (0.03, 0.02), "thickness": 0.004} | pad
    gel = scene.add_sensor(ElastomerDisplacement(pos=(0.004, 0, 0), **front, **options))
    skin = scene.add_sensor(TactileArray(pos=(0.003, 0, 0), **front, grid=(7, 7), spacing=0.00428, stiffness=1.0))
    tip = scene.add_sensor(
        ContactDepthProbe(pos=(0.003, 0, 0), **front, normals=(0, 0, 1.0), radius=0.001, depth="normal")
    )
    scene.build()
    return -gel.read()[0, ..., 2].numpy(), -skin.read().force[0, :, 2].numpy(), tip.read()[0].numpy()


@pytest.mark.parametrize(
    "body",
    [
        '<geom type="box" size="0.02 0.02 0.02" pos="-0.0229 0 0.5"/>',  # behind the finger
        '<geom type="box" size="0.002 0.02 0.02" pos="-0.0049 0 0.5"/>',
        '<geom type="box" size="0.02 0.02 0.02" pos="0.0261 0 0.5"/>',  # in front of it
        '<geom type="plane" size="1 1 1" pos="0 0 0.48719"/>',  # the floor, above the lowest markers
        '<geom type="plane" size="1 1 1" pos="0 0 0.48719" euler="0 0.5 0"/>',
        '<geom type="plane" size="1 1 1" pos="0 0 0.48719" euler="0 -0.5 0"/>',
        '<geom type="box" size="1 1 0.1" pos="0 0 0.38719"/>',  # the same as a table
        '<geom type="plane" size="1 1 1" pos="0.002 0 0.5" euler="0 90 0"/>',  # the pad is inside, facing out
    ],
)
def test_bodies_behind_and_beside_a_pad_are_not_felt(body):
    for reading in finger_scene(body):
        assert not reading.any()


def test_thin_bodies_and_bodies_too_deep_are_felt():
    """A sheet inside the pad presses what is below it, and a body through the whole pad presses it to the ground."""
    sheet = '<geom type="box" size="0.0005 0.008 0.008" pos="0.002 0 0.5"/>'  # 1.5 to 2.5 mm below the surface
    gel, _, _ = finger_scene(sheet)
    assert gel[2, 3] == pytest.approx(0.0025, abs=1e-8)
    assert set(gel.round(7).ravel()) == {np.float32(0), np.float32(0.0025)}
    deep = '<geom type="box" size="0.01 0.01 0.01" pos="0.0095 0 0.5"/>'  # 4.5 mm, in a pad of 4 mm
    gel, skin, tip = finger_scene(deep)
    assert gel.max() == np.float32(0.004)
    assert skin.max() == pytest.approx(0.0045, abs=1e-8)  # not limited, and its surface is that of the pad
    assert tip[0] == pytest.approx(0.0045, abs=1e-8)
    two = '<geom size="0.003" pos="0.005 0 0.5"/><geom type="box" size="0.01 0.01 0.01" pos="0.013 0 0.5"/>'
    gel, _, _ = finger_scene(two, grid=(3, 3), size=(0.02, 0.02))
    assert gel.ravel() == pytest.approx([0.001] * 4 + [0.002] + [0.001] * 4, abs=1e-8)  # the deeper one counts


# -- other sensors -----------------------------------------------------------------------------------------------------


def test_probes_read_the_depth_that_they_are_asked_for():
    """A ball beside a probe: the nearest surface is slanted, and along the normal it is the cap of the ball."""
    scene = press_scene()
    there = {"link": "pad", "pos": (0, 0, 0.01), "positions": ((0, 0, 0), (0.006, 0, 0)), "radius": 0.004}
    nearest = scene.add_sensor(ContactDepthProbe(uuid="nearest", normals=(0, 0, 1.0), **there))
    normal = scene.add_sensor(ContactDepthProbe(uuid="normal", normals=(0, 0, 1.0), depth="normal", **there))
    switch = scene.add_sensor(sn.ContactProbe(normals=(0, 0, 1.0), depth="normal", contact_threshold=0.003, **there))
    scene.build()
    for z in (0.0145, 0.012, 0.009, 0.007):
        place(scene, z=z)
        scene.step()
        straight, away = max(0.014 - z, 0), np.hypot(0.006, z)
        slanted = max(0.014 - away, 0) * z / away
        assert nearest.read()[0].tolist() == pytest.approx([straight, slanted], abs=1e-8)
        column = cap(0.01, 0.014 - z, np.array([0, 0.006]))
        assert normal.read()[0].tolist() == pytest.approx(column, abs=1e-8)
        assert switch.read()[0].tolist() == (column >= 0.003).tolist()
    with pytest.raises(OptionError, match="depth='normal' needs normals"):
        ContactDepthProbe(link="pad", depth="normal")


def test_springs_of_a_tactile_array_carry_the_volume_that_is_pressed_in():
    """The load of an elastic foundation is its modulus times the volume of the cap, pi d² (3 R - d) / 3."""
    scene = press_scene('type="sphere" size="0.008"')
    skin = {"link": "pad", "pos": (0, 0, 0.01), "grid": (61, 61), "spacing": 0.00025, "stiffness": 1000.0}
    normal = scene.add_sensor(TactileArray(uuid="normal", **skin))
    nearest = scene.add_sensor(TactileArray(uuid="nearest", depth="nearest", **skin))
    scene.build()
    for d in (0.0008, 0.002, 0.0035):
        place(scene, z=0.009 - d)  # the skin protrudes by 1 mm
        scene.step()
        force = -normal.read().force[0, :, 2].double().numpy()
        rho = np.hypot(*positions(normal)[:, :2].T)
        assert force == pytest.approx(1000 * cap(0.008, d, rho), abs=1000 * 1e-5 * d)
        volume = np.pi * d**2 * (3 * 0.008 - d) / 3
        assert force.sum() == pytest.approx(1000 / 0.00025**2 * volume, rel=2e-3)
        away = np.hypot(rho, 0.009 - d)
        facing = np.maximum(0.009 - away, 0) * (0.009 - d) / away
        assert -nearest.read().force[0, :, 2].double().numpy() == pytest.approx(1000 * facing, abs=1e-5)


def test_dilation_drag_and_slip_under_a_punch_are_the_documented_sums():
    """All 49 markers below the punch count, also near its sides, with the depth and the slip limit of the formulas."""
    nu, thickness, length, friction, d = 0.4, 0.004, 0.0015, 0.03, 2 * MM
    scene = press_scene('type="box" size="0.00345 0.00345 0.005"')
    law = {"poisson_ratio": nu, "thickness": thickness, "dilation_length": length, "shear_length": length}
    pad = {"link": "pad", "pos": (0, 0, 0.01), "grid": (13, 13), "size": (0.013, 0.013)}
    gel = scene.add_sensor(ElastomerDisplacement(**pad, **law, friction=friction))
    scene.build()
    place(scene, z=0.005 - d, velocity=(0.006, 0.008, 0, 0))
    p = positions(gel)[:, :2]
    under = (np.abs(p) < 3.1 * MM).all(1)
    assert under.sum() == 49
    r = p[:, None] - p[None]
    bell = np.exp(-(r**2).sum(2) / (2 * length**2)) * 1e-6 / (2 * np.pi * length**2) * under
    dilation = 2 * nu / thickness * d * (r * bell[..., None]).sum(1)
    limit = friction * 2 * (1 + nu) * d
    for step in range(4):
        scene.step()
        u = gel.read()[0].double().numpy().reshape(-1, 3)
        drag = min(0.01 * DT * step, limit)
        assert u[:, 2] == pytest.approx(-d * under, abs=1e-8)
        assert u[:, :2] == pytest.approx(dilation + drag * np.outer(bell.sum(1), (0.6, 0.8)), abs=1e-9)
    assert drag == limit
