"""Tile maps: boxes and height fields compared with the grid by volume, rays and contacts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sensorium as sn
from sensorium.worlds.tile_map import merge

STEPS = ["..##", "...#", "~..."]
HEIGHTS = {".": 0.0, "#": 0.2, "~": -0.1}

grids = (
    st.integers(1, 7)
    .flatmap(
        lambda columns: st.lists(
            st.lists(st.sampled_from([0.0, 0.1, 0.25, None]), min_size=columns, max_size=columns),
            min_size=1,
            max_size=7,
        )
    )
    .filter(lambda rows: any(tile is not None for row in rows for tile in row))
)


def centres(tiles):
    """Return the centre of every tile, (rows, columns, 2)."""
    rows, columns = tiles.height_map.shape
    x = (np.arange(columns) + 0.5 - columns / 2) * tiles.tile_size[0]
    y = (rows / 2 - np.arange(rows) - 0.5) * tiles.tile_size[1]
    return np.stack(np.meshgrid(x, y), axis=2)


def looked_down(tiles, points, start=3.0, **placing):
    """Return the height of the ground at points (n, 2), by rays of the engine."""
    scene = sn.Scene()
    scene.add_terrain(tiles, **placing)
    scene.build()
    rays = np.column_stack([points, np.full(len(points), start)])
    down = np.tile([0.0, 0.0, -1.0], (len(points), 1))
    distances, _ = scene.world.rays(rays[None], down[None])
    distances = distances.numpy()[0]
    return np.where(distances < 0, np.nan, start - distances)


@given(grids)
@settings(max_examples=150, deadline=None)
def test_boxes_cover_every_tile_once_and_no_holes(grid):
    tiles = sn.TileMap(grid, (0.5, 0.3), depth=0.4)
    heights, boxes = tiles.height_map, tiles.boxes()
    solid = ~np.isnan(heights)
    bottom = np.nanmin(heights) - 0.4
    assert (boxes[:, 3:].prod(1)).sum() == pytest.approx((heights[solid] - bottom).sum() * 0.5 * 0.3)
    assert boxes[:, 2] - boxes[:, 5] / 2 == pytest.approx(bottom)
    covered = np.zeros(heights.shape, int)
    for box in boxes:
        inside = (np.abs(centres(tiles) - box[:2]) < box[3:5] / 2).all(2)
        covered += inside
        assert heights[inside] == pytest.approx(box[2] + box[5] / 2)
    assert (covered == solid).all()


@given(grids)
@settings(max_examples=100, deadline=None)
def test_merging_leaves_no_neighbours_that_form_a_rectangle(grid):
    heights = sn.TileMap(grid).height_map
    found = merge(heights)
    for row, column, high, wide in found:
        for other_row, other_column, other_high, other_wide in found:
            neighbours = (row, column + wide, high) == (other_row, other_column, other_high)
            below = (row + high, column, wide) == (other_row, other_column, other_wide)
            same = heights[row, column] == heights[other_row, other_column]
            assert not (same and (neighbours or below))


def test_flat_ground_is_one_box():
    assert sn.TileMap(np.zeros((50, 40)), 0.1).boxes().tolist() == [[0, 0, -0.25, 4.0, 5.0, 0.5]]


@pytest.mark.parametrize("form", ["boxes", "height_field"])
def test_rays_measure_the_heights_of_the_grid(form):
    tiles = sn.TileMap(STEPS, (0.5, 0.4), HEIGHTS, form=form)
    points = centres(tiles).reshape(-1, 2)
    expected = np.array([[HEIGHTS[kind] for kind in row] for row in STEPS])
    assert looked_down(tiles, points) == pytest.approx(expected.ravel(), abs=1e-6)
    assert tiles.height_at(points) == pytest.approx(expected.ravel())
    moved = looked_down(tiles, points + np.array([3, -2]), pos=(3, -2, 0.7))
    assert moved == pytest.approx(expected.ravel() + 0.7, abs=1e-6)


def test_walls_are_vertical_for_boxes_and_ramps_for_height_fields():
    rng = np.random.default_rng(0)
    heights = rng.uniform(0, 0.3, (6, 5))
    boxes, field = (sn.TileMap(heights, 0.5, form=form) for form in ("boxes", "height_field"))
    points = rng.uniform(-1, 1, (400, 2)) * [1.25, 1.5]
    assert looked_down(boxes, points) == pytest.approx(boxes.height_at(points), abs=1e-6)
    within = np.abs(points / 0.5 + [2.5, 3.0] - np.floor(points / 0.5 + [2.5, 3.0]) - 0.5).max(1) < 0.25
    seen = looked_down(field, points)
    assert within.sum() > 50
    assert seen[within] == pytest.approx(field.height_at(points[within]), abs=1e-6)
    assert (seen >= field.height_at(points) - 1e-6).all()  # a ramp lies in the lower tile, so nothing is missing


def test_a_hole_has_no_ground():
    tiles = sn.TileMap(["# #", "###"], 1.0, {"#": 0.5, " ": None})
    seen = looked_down(tiles, np.array([[0.0, 0.5], [1.0, 0.5], [0.0, -0.5]]))
    assert np.isnan(seen).tolist() == [True, False, False]
    assert np.isnan(tiles.height_at([[0, 0.5], [9, 9]])).all()


@pytest.mark.parametrize("form", ["boxes", "height_field"])
def test_objects_come_to_rest_on_their_tile(form):
    tiles = sn.TileMap(STEPS, 0.5, HEIGHTS, form=form)
    scene = sn.Scene()
    scene.add_terrain(tiles)
    spots = {kind: centres(tiles)[row, column] for kind, row, column in ((".", 1, 1), ("#", 0, 3), ("~", 2, 0))}
    balls = {
        kind: scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name=f"box{number}", pos=(*spot, 0.35), free=True)
        for number, (kind, spot) in enumerate(spots.items())
    }
    scene.build()
    scene.step(150)
    for kind, ball in balls.items():
        assert float(ball.get_pose()[0][0, 2]) == pytest.approx(HEIGHTS[kind] + 0.05, abs=2e-3)


def geoms(tiles):
    model = tiles.to_spec().compile()
    return model.ngeom, model.nhfield


def test_many_boxes_become_one_height_field():
    rng = np.random.default_rng(0)
    few, many = rng.uniform(size=(30, 30)), rng.uniform(size=(40, 40))
    assert geoms(sn.TileMap(few)) == (900, 0)
    assert geoms(sn.TileMap(many)) == (1, 1)
    assert geoms(sn.TileMap(many, form="boxes")) == (1600, 0)
    assert geoms(sn.TileMap(np.zeros((40, 40)), form="height_field")) == (1, 1)
    holed = many.tolist()
    holed[3][4] = None
    assert geoms(sn.TileMap(holed)) == (1599, 0)  # a height field cannot have holes


def test_a_scene_with_tiles_is_recreated_from_its_contents():
    scene = sn.Scene()
    scene.add_terrain(sn.TileMap(STEPS, 0.5, HEIGHTS, rgba=(1, 0, 0, 1)), name="ground")
    scene.add_terrain(sn.TileMap(np.array([[0, 1]]), 0.5, [0.1, None]), pos=(9, 0, 0))
    scene.build()
    import json

    again = sn.Scene.from_contents(json.loads(json.dumps(scene.contents)))
    again.build()
    assert again.to_xml() == scene.to_xml()
    assert (again.world.model.geom_size == scene.world.model.geom_size).all()


XML = """<tile_map tile_size="0.5 0.4" depth="0.3" form="boxes" rgba="1 0 0 1">
  <tile kind="." height="0"/>
  <tile kind="#" height="0.2"/>
  <tile kind="o"/>
  <row>..##</row>
  <row>o..#</row>
</tile_map>"""


def test_xml(tmp_path):
    heights = {".": 0.0, "#": 0.2, "o": None}
    expected = sn.TileMap(["..##", "o..#"], (0.5, 0.4), heights, depth=0.3, form="boxes", rgba=(1, 0, 0, 1))
    assert sn.TileMap.from_xml(XML) == expected
    (tmp_path / "map.xml").write_text(XML)
    assert sn.TileMap.from_xml(tmp_path / "map.xml") == expected
    plain = sn.TileMap.from_xml("<tile_map><row>0 0.5</row><row>1e-1 -2</row></tile_map>")
    assert plain.height_map.tolist() == [[0, 0.5], [0.1, -2]]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("<row>o..#", "<row>o..", 1, "row 1 has 3"),
        ("<row>o..#", "<row>ox.#", 1, "must contain the kind 'x'"),
        ('kind="#"', 'kind="."', 3, "has two <tile> elements"),
        ('kind="#"', 'kind="##"', 3, "one letter"),
        ('height="0.2"', 'height="high"', 3, "finite number, got 'high'"),
        ('height="0.2"', 'height="inf"', 3, "finite number, got 'inf'"),
        ('height="0.2"', 'heigt="0.2"', 3, "did you mean 'height'"),
        ('depth="0.3"', 'dept="0.3"', 1, "did you mean 'depth'"),
        ('depth="0.3"', 'depth="-1"', 1, "depth"),
        ('form="boxes"', 'form="height_field"', 1, "cannot have holes"),
        ("<row>..##</row>", "<rows>..##</rows>", 5, "did you mean 'row'"),
        ("</tile_map>", "", 7, "malformed XML: no element found"),
        ("tile_map", "map", 1, "root must be <tile_map>"),
    ],
)
def test_errors_of_xml_name_file_and_line(tmp_path, old, new, line, words):
    file = tmp_path / "map.xml"
    file.write_text(XML.replace(old, new))
    with pytest.raises(sn.errors.ModelError) as error:
        sn.TileMap.from_xml(file)
    assert f"map.xml:{line}: " in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sn.TileMap("abc"), "must be rows"),
        (lambda: sn.TileMap(3), "must be rows"),
        (lambda: sn.TileMap([]), "at least one tile"),
        (lambda: sn.TileMap([[]]), "at least one tile"),
        (lambda: sn.TileMap(["ab", "a"], 1.0, {"a": 0, "b": 1}), "row 1 has 1"),
        (lambda: sn.TileMap(["ab"]), "heights must contain the kind 'a'"),
        (lambda: sn.TileMap(["grass"], 1.0, {"g": 0, "R": 0, "a": 0, "s": 0}), "contain the kind 'r'"),
        (lambda: sn.TileMap([[0, 3]], 1.0, [0.0, 0.1]), "contain the kind '3'"),
        (lambda: sn.TileMap([[None]]), "at least one tile must have a height"),
        (lambda: sn.TileMap([[0.0, float("nan")]]), "grid"),
        (lambda: sn.TileMap([[0.0]], 0.0), "tile_size"),
        (lambda: sn.TileMap([[0.0]], (1, 2, 3)), "tile_size"),
        (lambda: sn.TileMap([[0.0]], depht=1), "did you mean 'depth'"),
        (lambda: sn.TileMap([[0.0]], rgba=(2, 0, 0, 1)), "rgba"),
        (lambda: sn.TileMap([[0.0]], friction=(-1, 0, 0)), "friction"),
        (lambda: sn.TileMap([[0.0, None]], form="height_field"), "cannot have holes"),
    ],
)
def test_errors_name_the_option(make, words):
    with pytest.raises(sn.OptionError, match=words):
        make()
