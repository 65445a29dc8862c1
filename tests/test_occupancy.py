"""Occupancy maps: from scenes by rays, ROS's files, dilation, and path planning."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import sensorium as sn
from sensorium.scenarios import OccupancyMap, PathPlanner, Room

FREE, OCCUPIED, UNKNOWN = 0, 100, -1


def field(rows=21, columns=31, **options):
    """Return an empty map."""
    return OccupancyMap(np.zeros((rows, columns)), 0.1, **options)


def mapped(*things, resolution=0.1, bounds=(-2, -2, 2, 2), ground=True, **options):
    """Return the map of a scene of objects, each (shape, placement)."""
    scene = sn.Scene()
    if ground:
        scene.add_terrain(sn.Plane())
    for shape, placing in things:
        scene.add_object(shape, **placing)
    scene.build()
    return OccupancyMap.from_scene(scene, resolution, bounds=bounds, **options)


# -- from a scene -----------------------------------------------------------------------------------------------------


def test_a_box_is_occupied_where_it_stands():
    room = mapped((sn.Box(size=(1.0, 0.6, 0.4)), {"pos": (0.5, -0.3, 0.2)}))
    x, y = (room.to_world(np.argwhere(np.ones(room.shape))).T).reshape(2, *room.shape)
    inside = (np.abs(x - 0.5) < 0.5) & (np.abs(y + 0.3) < 0.3)
    assert inside.sum() == 60
    assert np.array_equal(room.cells == OCCUPIED, inside)
    assert (room.cells[~inside] == FREE).all()
    assert room.shape == (40, 40)


@pytest.mark.parametrize(
    ("thing", "pos", "occupied"),
    [
        (sn.Box(size=(1, 1, 4)), (0, 0, 2), True),  # contains the whole range of heights
        (sn.Cylinder(radius=0.5, height=4), (0, 0, 2), True),
        (sn.Sphere(radius=1), (0, 0, 0.3), True),
        (sn.Capsule(radius=0.5, length=3), (0, 0, 1.5), True),
        (sn.Box(size=(1, 1, 0.02)), (0, 0, 0.3), True),  # a plate between the heights
        (sn.Box(size=(1, 1, 0.1)), (0, 0, 0.7), False),  # a table that is high enough to pass below
        (sn.Box(size=(1, 1, 0.06)), (0, 0, 0.01), False),  # a step that is low enough to drive over
        (sn.Box(size=(1, 1, 1), collide=False), (0, 0, 0.5), False),  # no collision
        (sn.Box(size=(1, 1, 1), rgba=(1, 1, 1, 0)), (0, 0, 0.5), True),  # transparent
    ],
)
def test_geometry_between_the_heights_counts(thing, pos, occupied):
    room = mapped((thing, {"pos": pos}), heights=(0.05, 0.5))
    assert bool(room.is_free([0.02, 0.02])) is not occupied
    assert room.is_free([1.5, 1.5])


def test_a_thin_wall_between_the_centres_of_cells_is_found():
    wall = sn.Box(size=(0.01, 3.0, 1.0))
    room = mapped((wall, {"pos": (0.098, 0, 0.5)}))  # the centres are at 0.05 and 0.15
    column = room.to_pixels([0.098, 0.0])[1]
    assert (room.cells[5:-5, column] == OCCUPIED).all()
    room = mapped((wall, {"pos": (0, 0.002, 0.5), "euler": (0, 0, math.pi / 2)}))
    row = room.to_pixels([0.0, 0.002])[0]
    assert (room.cells[row, 6:-6] == OCCUPIED).all()


def test_cells_without_ground_are_unknown_and_robots_are_ignored():
    assert (mapped((sn.Box(), {"pos": (0, 0, 0.2)}), ground=False).cells[:10] == UNKNOWN).all()
    scene = sn.Scene()
    scene.add_terrain(sn.Plane())
    model = "<mujoco><worldbody><body name='box'><geom type='box' size='0.5 0.5 0.5'/></body></worldbody></mujoco>"
    scene.add_robot(model, name="robot", pos=(0, 0, 0.5))
    scene.add_object(sn.Box(size=(0.4, 0.4, 1)), name="crate", pos=(1, 0, 0.5), free=True)
    scene.build(n_envs=2)
    bounds = (-2, -2, 2, 2)
    assert OccupancyMap.from_scene(scene, bounds=bounds).is_free([[0, 0], [1, 0]]).tolist() == [True, False]
    everything = OccupancyMap.from_scene(scene, bounds=bounds, exclude=())
    assert everything.is_free([[0, 0], [1, 0]]).tolist() == [False, False]
    scene["crate"].set_pose(pos=(-1, 0, 0.5), envs=[1])
    assert OccupancyMap.from_scene(scene, bounds=bounds, env=1).is_free([[1, 0], [-1, 0]]).tolist() == [True, False]
    assert OccupancyMap.from_scene(scene, bounds=bounds, env=0).is_free([[1, 0], [-1, 0]]).tolist() == [False, True]
    before = scene.get_state()
    OccupancyMap.from_scene(scene, bounds=bounds)
    assert bool((scene.get_state() == before).all())


def test_default_bounds_are_those_of_the_geometry():
    scene = sn.Scene()
    scene.add_module("room", Room(size=(6.0, 4.0), obstacles=1))
    scene.build()
    room = OccupancyMap.from_scene(scene, 0.1)
    assert room.shape == (42, 62)
    assert room.origin == pytest.approx((-3.1, -2.1, 0.0))
    edge = np.ones(room.shape, bool)
    edge[1:-1, 1:-1] = False
    assert (room.cells[edge] == OCCUPIED).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 0.0}, "resolution"),
        ({"heights": (0.5, 0.1)}, "heights"),
        ({"bounds": (1, 0, 0, 1)}, "bounds"),
        ({"exclude": ("rover",)}, "no entity 'rover'"),
        ({"env": 3}, "env must be in"),
    ],
)
def test_errors_name_the_option(options, message):
    scene = sn.Scene()
    scene.add_terrain(sn.Plane(), name="ground")
    scene.build()
    with pytest.raises(sn.OptionError, match=message):
        OccupancyMap.from_scene(scene, **{"bounds": (0, 0, 1, 1), **options})
    with pytest.raises(sn.OptionError, match="bounds must be given"):
        OccupancyMap.from_scene(scene)


# -- files ------------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    cells=st.lists(
        st.lists(st.sampled_from([FREE, OCCUPIED, UNKNOWN]), min_size=5, max_size=5), min_size=1, max_size=7
    ),
    resolution=st.floats(0.001, 2.0),
    origin=st.tuples(st.floats(-50, 50), st.floats(-50, 50), st.floats(-3, 3)),
    thresholds=st.sampled_from([(0.65, 0.196), (0.5, 0.4), (0.9, 0.1), (0.99, 0.02)]),
    negate=st.booleans(),
)
def test_a_map_survives_saving(tmp_path_factory, cells, resolution, origin, thresholds, negate):
    saved = OccupancyMap(np.array(cells), resolution, origin, *thresholds, negate)
    folder = tmp_path_factory.mktemp("map") / "sub"
    saved.save(folder)
    for path in (folder, folder / "map.yaml"):
        loaded = OccupancyMap.load(path)
        assert np.array_equal(loaded.cells, saved.cells)
        for name in ("resolution", "origin", "occupied_threshold", "free_threshold", "negate"):
            assert getattr(loaded, name) == getattr(saved, name)


def test_maps_of_ros_are_loaded(tmp_path):
    pixels = np.full((3, 4), 254, np.uint8)  # values of map_saver: free, unknown, occupied
    pixels[0, 1], pixels[2, 3] = 205, 0
    Image.fromarray(pixels).save(tmp_path / "hall.pgm")
    text = (
        "image: hall.pgm\nresolution: 0.050000\norigin: [-12.200000, -7.5, 0.000000]\nnegate: 0\n"
        "occupied_thresh: 0.65\nfree_thresh: 0.196\n\n"
    )
    (tmp_path / "hall.yaml").write_text(text)
    hall = OccupancyMap.load(tmp_path / "hall.yaml")
    assert hall.cells.tolist() == [[0, -1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 100]]
    assert (hall.resolution, hall.origin) == (0.05, (-12.2, -7.5, 0.0))
    assert not hall.is_free([-12.2 + 3.5 * 0.05, -7.5 + 0.01])  # occupied: the lower right pixel
    (tmp_path / "dark.yaml").write_text(text.replace("negate: 0", "negate: 1"))
    assert OccupancyMap.load(tmp_path / "dark.yaml").cells[2].tolist() == [100, 100, 100, 0]


def test_pixels_have_the_values_of_ros(tmp_path):
    OccupancyMap(np.array([[FREE, OCCUPIED, UNKNOWN]]), 0.05).save(tmp_path)
    assert np.asarray(Image.open(tmp_path / "map.png")).tolist() == [[254, 0, 205]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image: gone.png\nresolution: 0.1\norigin: [0, 0, 0]\n", "gone.png"),
        ("image: map.png\nresolution: 0.1\n", "needs the keys"),
        ("image: map.png\nresolution: fine\norigin: [0, 0, 0]\n", "must be numbers"),
        ("image: map.png\nresolution: -1\norigin: [0, 0, 0]\n", "resolution"),
        ("image: map.png\nresolution: 0.1\norigin: [0, 0]\n", "origin"),
        ("image: map.png\nresolution: 0.1\norigin: [0, 0, 0]\nmode: raw\n", "'raw'"),
        ("image: map.png\nresolution: 0.1\norigin: [0, 0, 0]\nfree_thresh: 0.8\n", "thresholds"),
        ("image: [", "not valid YAML"),
    ],
)
def test_errors_of_map_files_name_the_file(tmp_path, text, message):
    field().save(tmp_path)
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(sn.OptionError, match=message) as error:
        OccupancyMap.load(tmp_path)
    assert "map.yaml" in str(error.value)
    with pytest.raises(sn.OptionError, match="there is no map"):
        OccupancyMap.load(tmp_path / "nowhere")


# -- cells and points -------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    resolution=st.floats(0.01, 1.0), x=st.floats(-100, 100), y=st.floats(-100, 100), yaw=st.floats(-math.pi, math.pi)
)
def test_to_pixels_is_the_inverse_of_to_world(resolution, x, y, yaw):
    room = OccupancyMap(np.zeros((13, 9)), resolution, (x, y, yaw))
    pixels = np.argwhere(np.ones(room.shape))
    points = room.to_world(pixels)
    assert np.array_equal(room.to_pixels(points), pixels)
    assert np.allclose(room.to_world(room.to_pixels(points)), points, atol=0)


def test_the_origin_is_the_lower_left_corner_and_yaw_rotates_the_map():
    room = OccupancyMap(np.zeros((4, 6)), 0.5, (1.0, 2.0, 0.0))
    assert room.to_world([3, 0]).tolist() == [1.25, 2.25]
    assert room.to_world([0, 5]).tolist() == [3.75, 3.75]
    turned = OccupancyMap(np.zeros((4, 6)), 0.5, (1.0, 2.0, math.pi / 2))
    assert turned.to_world([3, 5]) == pytest.approx([0.75, 4.75])
    assert not turned.is_free([[0.75, 5.25], [1.01, 2.2]]).any()
    assert turned.is_free([0.75, 4.75])


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.35, 0.6, 0.9])
def test_dilation_of_one_cell_is_a_disc(radius):
    room = field()
    room.cells[10, 12] = OCCUPIED
    rows, columns = np.indices(room.shape)
    disc = ((rows - 10) ** 2 + (columns - 12) ** 2) * 0.01 <= radius**2 + 1e-9
    wide = room.dilated(radius)
    assert np.array_equal(wide.cells == OCCUPIED, disc)
    assert disc.sum() >= 1
    assert (room.cells == OCCUPIED).sum() == 1


def test_dilation_is_the_union_of_discs():
    rng = np.random.default_rng(0)
    room = field()
    room.cells[rng.random(room.shape) < 0.02] = OCCUPIED
    union = np.zeros(room.shape, bool)
    rows, columns = np.indices(room.shape)
    for row, column in np.argwhere(room.cells == OCCUPIED):
        union |= (rows - row) ** 2 + (columns - column) ** 2 <= 9
    assert np.array_equal(room.dilated(0.3).cells == OCCUPIED, union)
    assert (field().dilated(5.0).cells == FREE).all()
    with pytest.raises(sn.OptionError, match="radius"):
        room.dilated(-1.0)


def test_free_points_are_free_uniform_and_repeatable():
    room = field(10, 10)
    room.cells[:, :5] = OCCUPIED
    room.cells[0] = UNKNOWN
    points = room.sample_free(4000, seed=3)
    assert room.is_free(points).all()
    assert np.array_equal(points, room.sample_free(4000, seed=3))
    assert not np.array_equal(points, room.sample_free(4000, seed=4))
    pixels = room.to_pixels(points)
    counts = np.bincount(pixels[:, 0] * 10 + pixels[:, 1], minlength=100)[room.free.flatten()]
    assert len(counts) == 45
    assert (
        ((counts - 4000 / 45) ** 2).sum() / (4000 / 45)
    ) < 80  # chi-squared with 44 degrees of freedom: 99.9% lie below 78.7
    room.cells[:] = OCCUPIED
    with pytest.raises(sn.OptionError, match="no free cell"):
        room.sample_free(1)


# -- paths ------------------------------------------------------------------------------------------------------------


def test_on_free_ground_the_path_is_a_straight_line():
    planner = PathPlanner(field(60, 60))
    way = planner.plan(np.array([0.55, 0.55]), np.array([5.25, 3.15]))
    assert way == pytest.approx(np.array([[0.55, 0.55], [5.25, 3.15]]))


def test_a_path_around_a_wall_bends_only_at_its_end():
    room = field(60, 60)
    room.cells[20:, 30] = OCCUPIED  # from the lower edge up to y = 4
    way = PathPlanner(room).plan(np.array([1.05, 1.05]), np.array([5.05, 1.05]))
    length = np.hypot(*np.diff(way, axis=0).T).sum()
    tip = np.array([3.05, 4.05])
    shortest = 2 * np.hypot(*(tip - [1.05, 1.05]))
    assert shortest - 0.2 < length < 1.03 * shortest
    assert len(way) <= 6
    along = np.concatenate([np.linspace(a, b, 50) for a, b in pairwise(way)])
    assert room.is_free(along).all()


def test_paths_do_not_cut_corners_and_plan_returns_none_without_a_path():
    room = field(10, 10)
    room.cells[:5, 5], room.cells[5, :] = OCCUPIED, OCCUPIED  # two walls that meet; one side is open
    room.cells[5, 6:] = FREE
    room.cells[5, 5] = FREE  # only a diagonal step could pass here
    planner = PathPlanner(room)
    assert planner.plan(np.array([0.15, 0.85]), np.array([0.95, 0.85])) is None
    assert planner.plan(np.array([0.15, 0.15]), np.array([0.95, 0.85])) is not None


def test_a_start_in_a_wall_uses_the_nearest_free_cell():
    room = field(20, 20)
    room.cells[:, :8] = OCCUPIED
    way = PathPlanner(room).plan(np.array([0.75, 1.05]), np.array([1.55, 1.05]))
    assert way[0] == pytest.approx([0.85, 1.05])
    room.cells[:] = OCCUPIED
    with pytest.raises(sn.OptionError, match="no free cell"):
        PathPlanner(room)


# -- rooms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_rooms_depend_on_the_seed_and_are_free_at_the_origin(seed):
    maps = []
    for _ in range(2):
        scene = sn.Scene()
        scene.add_module("room", Room(seed=seed))
        scene.build()
        assert scene.model.nbody == 1 + 1 + 4 + 10
        maps.append(OccupancyMap.from_scene(scene))
    assert np.array_equal(maps[0].cells, maps[1].cells)
    assert maps[0].clearance()[tuple(maps[0].to_pixels([0.0, 0.0]))] >= 0.75
    regions = PathPlanner(maps[0].dilated(0.4)).regions
    assert regions.max() == 1  # all free cells are connected
    other = sn.Scene()
    other.add_module("room", Room(seed=seed + 1))
    other.build()
    assert not np.array_equal(OccupancyMap.from_scene(other).cells, maps[0].cells)


def test_impossible_rooms_raise():
    with pytest.raises(sn.OptionError, match="no place for obstacle"):
        Room(size=(4.0, 4.0), obstacles=40)
    with pytest.raises(sn.OptionError, match=r"size must be > 1\.6 m, the clear circle"):
        Room(size=(1.0, 4.0))
    with pytest.raises(sn.OptionError, match="obstacle_size"):
        Room(obstacle_size=(1.0, 0.5))
