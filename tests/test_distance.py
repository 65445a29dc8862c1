"""Distances from points to every kind of geom against closed forms, MuJoCo's own distances and dense sampling."""

import mujoco
import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import NameNotFoundError, OptionError
from sensorium.sensors.touch.proximity import Proximity, SurfaceDistanceProbe

POSE = 'pos="0.1 -0.2 0.3" euler="20 40 60"'
CUBE = " ".join(f"{x} {y} {z}" for x in (-0.3, 0.3) for y in (-0.2, 0.2) for z in (-0.1, 0.1))
CLOUD = np.random.default_rng(3).normal(size=(40, 3)) * (0.3, 0.2, 0.1)
GEOMS = {
    "sphere": 'type="sphere" size="0.25"',
    "capsule": 'type="capsule" size="0.1 0.2"',
    "cylinder": 'type="cylinder" size="0.2 0.1"',
    "box": 'type="box" size="0.3 0.2 0.1"',
    "ellipsoid": 'type="ellipsoid" size="0.3 0.2 0.05"',
    "mesh": 'type="mesh" mesh="cloud"',
    "plane": 'type="plane" size="1 1 0.1"',
}


def model_of(geom: str, pose: str = POSE) -> str:
    """Return a model with one body and one geom."""
    cloud = " ".join(f"{value:.6f}" for value in CLOUD.ravel())
    return f"""<mujoco><asset><mesh name="cloud" vertex="{cloud}"/><mesh name="cube" vertex="{CUBE}"/></asset>
      <worldbody><body name="thing" {pose}><geom name="thing" {geom}/></body></worldbody></mujoco>"""


def measure(model: str, points: np.ndarray, max_range: float = 10.0):
    """Return distances (n,) and nearest points (n, 3) from points in the world frame, and the compiled model."""
    scene = sn.Scene()
    scene.add_object(model, name="m")
    scene.add_object(sn.Sphere(radius=0.001, collide=False), name="eye")
    positions = tuple(tuple(map(float, point)) for point in points)
    probe = scene.add_sensor(Proximity(link="eye", positions=positions, max_range=max_range))
    scene.build()
    reading = probe.read()
    return reading.distances[0].double().numpy(), reading.points[0].double().numpy(), scene.model


def cloud_of_points(n: int = 60) -> np.ndarray:
    """Return random points around the geom, (n, 3) m."""
    return np.random.default_rng(0).normal(size=(n, 3)) * 0.4 + (0.1, -0.2, 0.3)


def surface_samples(model: mujoco.MjModel, geom: int, count: int = 400_000) -> np.ndarray:
    """Return points all over the surface of a geom, in its frame: where rays from its centre leave it."""
    rng = np.random.default_rng(1)
    rays = rng.normal(size=(count, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    a, b, c = model.geom_size[geom]
    kind = mujoco.mjtGeom(model.geom_type[geom]).name.removeprefix("mjGEOM_").lower()
    if kind == "ellipsoid":
        return rays / np.sqrt(((rays / (a, b, c)) ** 2).sum(1, keepdims=True))
    if kind == "box":
        return rays / np.abs(rays / (a, b, c)).max(1, keepdims=True)
    if kind == "cylinder":
        rho = np.linalg.norm(rays[:, :2], axis=1)
        return rays / np.maximum(rho / a, np.abs(rays[:, 2]) / b)[:, None]
    raise NotImplementedError(kind)


@pytest.mark.parametrize("kind", list(GEOMS))
def test_distances_outside_agree_with_mujoco(kind):
    """Distances and nearest points agree with mj_geomDistance to a tiny sphere."""
    points = cloud_of_points()
    distances, nearest, _ = measure(model_of(GEOMS[kind]), points)
    spec = mujoco.MjSpec.from_string(model_of(GEOMS[kind]))
    body = spec.worldbody.add_body(name="tip", mocap=True)
    body.add_geom(name="tip", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[1e-6, 0, 0])
    model = spec.compile()
    data = mujoco.MjData(model)
    thing, tip, outside = model.geom("thing").id, model.geom("tip").id, 0
    for point, distance, near in zip(points, distances, nearest, strict=True):
        if distance < 1e-3:
            continue
        outside += 1
        data.mocap_pos[0] = point
        mujoco.mj_forward(model, data)
        fromto = np.zeros(6)
        assert mujoco.mj_geomDistance(model, data, thing, tip, 10.0, fromto) == pytest.approx(distance, abs=3e-6)
        assert np.linalg.norm(point - near) == pytest.approx(distance, abs=1e-6)
        assert near == pytest.approx(fromto[:3], abs=2e-4)
    assert outside > 20


@pytest.mark.parametrize("kind", ["ellipsoid", "box", "cylinder"])
def test_distances_inside_and_outside_agree_with_dense_samples(kind):
    """The magnitude is the distance to the nearest of many surface points; the sign is negative inside."""
    rng = np.random.default_rng(2)
    local = rng.uniform(-1, 1, size=(60, 3)) * (0.35, 0.25, 0.12)
    frame = sn.Scene()
    frame.add_object(model_of(GEOMS[kind]), name="m")
    frame.build()
    at, turn = frame.world.bind("geom_xpos")[0, 0].numpy(), frame.world.bind("geom_xmat")[0, 0].numpy().reshape(3, 3)
    distances, _, model = measure(model_of(GEOMS[kind]), at + local @ turn.T)
    samples = surface_samples(model, 0)
    a, b, c = model.geom_size[0]
    if kind == "ellipsoid":
        inside = ((local / (a, b, c)) ** 2).sum(1) < 1
    elif kind == "box":
        inside = (np.abs(local) < (a, b, c)).all(1)
    else:
        inside = (np.hypot(local[:, 0], local[:, 1]) < a) & (np.abs(local[:, 2]) < b)
    assert 4 < inside.sum() < 55
    assert np.array_equal(distances < 0, inside)
    for point, distance in zip(local, distances, strict=True):
        sampled = np.sqrt(((samples - point) ** 2).sum(1).min())
        assert -1e-6 <= sampled - abs(distance) < 2e-3


def test_ellipsoid_on_its_axes_and_as_a_sphere():
    """The nearest point is known on the axes, at the centre, and for a sphere."""
    still = 'pos="0 0 0"'
    points = np.array([[0, 0, 0.2], [0, 0, 0.0], [0.5, 0, 0], [0, -0.4, 0], [0, 0, 0.02]])
    distances, _, _ = measure(model_of('type="ellipsoid" size="0.3 0.2 0.05"', still), points)
    assert distances == pytest.approx([0.15, -0.05, 0.2, 0.2, -0.03], abs=1e-6)
    points = cloud_of_points(20)
    distances, _, _ = measure(model_of('type="ellipsoid" size="0.2 0.2 0.2"', still), points)
    assert distances == pytest.approx(np.linalg.norm(points, axis=1) - 0.2, abs=1e-6)


def test_mesh_of_a_box_agrees_with_a_box():
    """A mesh of a box's corners has the box's distances, inside and outside, and its nearest points."""
    still = 'pos="0 0 0"'
    points = np.random.default_rng(5).uniform(-0.5, 0.5, size=(200, 3)) * (1, 0.8, 0.5)
    box = measure(model_of('type="box" size="0.3 0.2 0.1"', still), points)
    mesh = measure(model_of('type="mesh" mesh="cube"', still), points)
    assert (box[0] < 0).sum() > 10
    assert mesh[0] == pytest.approx(box[0], abs=2e-6)
    assert mesh[1] == pytest.approx(box[1], abs=2e-5)


def test_distances_to_a_height_field():
    """A ramp has the distance of a plane; the heights of a rough field are those that rays find."""
    rows = 9
    ramp = " ".join(f"{col / (rows - 1)}" for _ in range(rows) for col in range(rows))
    xml = f"""<mujoco><asset><hfield name="h" nrow="{rows}" ncol="{rows}" size="1 1 0.5 0.1" elevation="{ramp}"/>
      </asset><worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>"""
    points = np.random.default_rng(7).uniform((-0.5, -0.5, -0.25), (0.5, 0.5, 0.75), size=(50, 3))
    distances, _, _ = measure(xml, points)
    slope = 0.25  # 0.5 m over 2 m
    plane = (points[:, 2] - slope * (points[:, 0] + 1)) / np.sqrt(1 + slope**2)
    assert (plane < 0).any()
    assert distances == pytest.approx(plane, abs=1e-6)

    bumps = np.random.default_rng(8).random((rows, rows))
    elevation = " ".join(map(str, bumps.ravel()))
    xml = f"""<mujoco><asset><hfield name="h" nrow="{rows}" ncol="{rows}" size="1 1 0.3 0.1" elevation="{elevation}"/>
      </asset><worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    grid = np.random.default_rng(9).uniform(-0.95, 0.95, size=(60, 2))
    down, geom = np.array([0, 0, -1.0]), np.zeros(1, np.int32)
    z = [1 - mujoco.mj_ray(model, data, np.array([x, y, 1.0]), down, None, 1, -1, geom) for x, y in grid]
    on_it = np.column_stack([grid, z])
    assert measure(xml, on_it)[0] == pytest.approx(np.zeros(60), abs=1e-6)
    assert (measure(xml, on_it - (0, 0, 0.01))[0] < 0).all()
    # no point of the surface is nearer than the distance, and one of them is as near
    above = on_it[:10] - (0, 0, -0.1)
    distances, nearest, _ = measure(xml, above)
    assert np.linalg.norm(above - nearest, axis=1) == pytest.approx(distances, abs=1e-6)
    dense = np.random.default_rng(10).uniform(-1, 1, size=(20_000, 2))
    heights = [1 - mujoco.mj_ray(model, data, np.array([x, y, 1.0]), down, None, 1, -1, geom) for x, y in dense]
    surface = np.column_stack([dense, heights])
    for point, distance in zip(above, distances, strict=True):
        sampled = np.linalg.norm(surface - point, axis=1).min()
        assert -1e-6 <= sampled - distance < 5e-3


def test_proximity_reads_the_nearest_surface_and_saturates():
    scene = sn.Scene()
    scene.add_object(sn.Sphere(radius=0.1), name="near", pos=(0.3, 0, 1))
    scene.add_object(sn.Sphere(radius=0.1), name="far", pos=(0, 0.5, 1))
    scene.add_object(sn.Box(size=(0.02, 0.02, 0.02)), name="eye", pos=(0, 0, 1))
    everything = scene.add_sensor(Proximity(link="eye", uuid="all", max_range=0.6))
    far = scene.add_sensor(SurfaceDistanceProbe(link="eye", uuid="far only", tracked="far", max_range=0.6))
    short = scene.add_sensor(Proximity(link="eye", uuid="short", max_range=0.15, noise=0.05))
    turned = scene.add_sensor(Proximity(link="eye", uuid="turned", euler=(0, 0, np.pi / 2), frame="sensor"))
    scene.build()
    assert everything.read().distances.item() == pytest.approx(0.2, abs=1e-6)
    assert everything.read().points[0, 0].tolist() == pytest.approx([0.2, 0, 1], abs=1e-6)
    assert far.read().distances.item() == pytest.approx(0.4, abs=1e-6)
    assert turned.read().points[0, 0].tolist() == pytest.approx([0, -0.2, 0], abs=1e-6)
    readings = []
    for _ in range(20):
        scene.step()
        readings.append(short.read().distances.item())
        assert short.read_ground_truth().distances.item() == pytest.approx(0.15)
        assert short.read_ground_truth().points[0, 0].tolist() == pytest.approx([0, 0, 1], abs=1e-6)
    assert max(readings) == pytest.approx(0.15)
    assert min(readings) < 0.14


def test_own_robot_is_ignored_unless_tracked():
    scene = sn.Scene()
    scene.add_object(
        """<mujoco><worldbody><body name="palm"><geom size="0.05"/><body name="thumb" pos="0.2 0 0">
          <joint axis="0 1 0"/><geom size="0.03"/></body></body></worldbody></mujoco>""",
        name="hand",
        pos=(0, 0, 1),
    )
    scene.add_object(sn.Sphere(radius=0.1), name="ball", pos=(0, 0, 1.6))
    others = scene.add_sensor(Proximity(link="palm", uuid="others", max_range=1.0))
    thumb = scene.add_sensor(Proximity(link="palm", uuid="thumb", max_range=1.0, tracked=("thumb", "ball")))
    scene.build()
    assert others.read().distances.item() == pytest.approx(0.5, abs=1e-6)
    assert thumb.read().distances.item() == pytest.approx(0.17, abs=1e-6)


def test_wrong_options_are_rejected():
    for options, error, text in (
        ({"tracked": "boks"}, NameNotFoundError, "did you mean 'box'"),
        ({"tracked": ("ghost",)}, OptionError, "no geom that collides on 'ghost'"),
        ({"tracked": "box"}, OptionError, "must not name the link that carries the sensor"),
    ):
        copy = sn.Scene()
        copy.add_object(sn.Box(), name="box", free=True)
        copy.add_object(sn.Box(collide=False), name="ghost")
        copy.add_sensor(Proximity(link="box", **options))
        with pytest.raises(error, match=text):
            copy.build()
    with pytest.raises(OptionError, match="max_range"):
        Proximity(link="box", max_range=0.0)
    with pytest.raises(OptionError, match="positions"):
        Proximity(link="box", positions=())
