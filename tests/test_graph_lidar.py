"""Power, echoes, moving patterns and time stamps of lidars with the GPU backend, run on Warp's CPU device.

Closed forms that hold for the CPU backend hold for it too. Both find the echoes of a plain Python reference.
"""

import numpy as np
import pytest
import torch
from everywhere import LIDARS, shapes_scene
from test_graph_path import GraphWorld
from test_graph_sensors import build_both, compare, graph_world  # noqa: F401

from sensorium.worlds import scene as scenes

pytest.importorskip("warp")

# closed forms, which the fixture graph_world runs with the GPU backend
from test_lidar_motion import (  # noqa: F401
    test_drawn_rays_of_a_moving_pattern_end_at_the_points,
    test_echoes_of_a_moving_pattern,
    test_every_reading_has_the_next_rays,
    test_scanned_frames_follow_each_other,
    test_times_of_scanned_columns,
    test_times_without_a_scan_are_zero_and_delayed_ones_are_kept,
)
from test_lidar_power import (  # noqa: F401
    test_a_diverging_beam_has_the_power_of_its_centre,
    test_a_split_beam_has_two_echoes,
    test_echoes_below_the_threshold_do_not_count,
    test_fog_and_rain_fade_along_the_path,
    test_power_at_the_lens_is_bounded,
    test_power_of_a_tilted_lambert_plate,
    test_reflectivity_of_entities_links_and_geoms,
    test_retro_reflectors,
    test_share_of_the_footprint,
    test_surface_in_front_of_min_range_blocks_its_part_of_the_beam,
    test_surfaces_closer_than_the_pulse_are_one_echo,
    test_threshold_per_env,
    test_threshold_range,
)


def test_lidars_agree_with_the_cpu(monkeypatch):
    """Echoes, scans, moving patterns and plain rays of one group; parameters and resets per env."""
    plain, graph = build_both(lambda: shapes_scene(rays=LIDARS), monkeypatch)
    assert "after the graph" not in graph.describe()
    close = {"rtol": 2e-4, "atol": 2e-3}  # powers of grazing hits on curved surfaces are the worst in float32
    compare(plain, graph, "at build", **close)
    for step in range(25):
        for one in (plain, graph):
            one.step()
            if step == 8:
                one.reset(envs=[1])
            if step == 12:
                one["echo"].set(threshold=0.2, envs=[0])
                one["echo"].set(extinction=0.5, envs=[1])
        compare(plain, graph, f"at step {step}", **close)
    assert (plain["echo"].read_ground_truth().intensity[1] > 0).any()


@pytest.mark.parametrize("world", [GraphWorld.__base__, GraphWorld])
def test_echoes_are_those_of_the_reference(monkeypatch, world):
    """All rays of every bundle, cast by MuJoCo, merged into echoes by a few lines of Python."""
    monkeypatch.setattr(scenes, "MujocoWorld", world)
    scene = shapes_scene(rays=LIDARS[:1])
    scene.step(3)
    lidar, layout, model = scene["echo"], scene["echo"].group.backend.layout, scene.model
    env, n = 1, lidar._rig.n_bundles
    body = model.body("shapes/eye").id
    place, turn = (scene.world.bind(name)[env, body].double().numpy() for name in ("xpos", "xmat"))
    directions = layout.ray_vectors @ turn.reshape(3, 3).T
    origins = np.broadcast_to(place, directions.shape)
    found = scene.world.rays(
        np.ascontiguousarray(origins), np.ascontiguousarray(directions), normal=True, bodyexclude=body
    )
    distances, geoms, normals = (each[env].double().numpy() for each in found)
    surfaces = layout.surfaces[0][geoms.astype(int)]
    cosine = np.abs((normals * directions).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = (surfaces[:, 0] * cosine + surfaces[:, 1] * cosine**4) / 12 / distances**2
        power *= (1 - np.exp(-((distances / 0.5) ** 2))) * np.exp(-2 * 0.05 * distances)
    kinds = [0, 0, 0, 0, 0]
    truth = lidar.read_ground_truth()
    for i in range(n):
        rays = [j for j in range(12 * i, 12 * i + 12) if 0 <= distances[j] <= 4.0]
        echoes: list[list[int]] = []
        for j in sorted(rays, key=lambda j: distances[j]):
            if echoes and distances[j] - distances[echoes[-1][-1]] <= 0.1:
                echoes[-1].append(j)
            else:
                echoes.append([j])
        echoes = [echo for echo in echoes if power[echo].sum() >= 0.01]
        kinds[min(len(echoes), 4)] += 1
        strongest = max(echoes, key=lambda echo: power[echo].sum(), default=None)
        wanted = [echoes[0] if echoes else None, echoes[1] if len(echoes) > 1 else None]
        wanted += [echoes[-1] if echoes else None, strongest]
        for number, echo in enumerate(wanted):
            got = [getattr(truth, name)[env, number].flatten()[i].item() for name in ("distances", "intensity")]
            expected = [4.0, 0.0]
            if echo:
                expected = [np.average(distances[echo], weights=power[echo]), power[echo].sum()]
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-3)
            bodies = {int(model.geom_bodyid[int(geoms[j])]) for j in echo or ()} or {-1}
            assert int(truth.body_ids[env, number].flatten()[i]) in bodies
    assert min(kinds[:3]) > 5, "beams without an echo, with one and with several"


def test_times_have_the_bits_of_the_cpu(monkeypatch):
    plain, graph = build_both(lambda: shapes_scene(rays=LIDARS[1:3]), monkeypatch)
    for one in (plain, graph):
        one.step(17)
    for uuid in ("scan", "rosette"):
        assert torch.equal(plain[uuid].read().times, graph[uuid].read().times)
