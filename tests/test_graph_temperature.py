"""The temperature grid with the GPU backend, run on Warp's CPU device (see test_graph_path.py)."""

import pytest
import torch
from test_graph_sensors import build_both, compare, graph_world  # noqa: F401
from touch_everywhere import HEAT, press, press_scene

pytest.importorskip("warp")

# closed forms and contracts, which the fixture graph_world runs with the GPU backend
from test_temperature import (  # noqa: F401
    TestTemperatureGrid,
    test_contact_conductance_follows_force_and_hardness,
    test_default_grid_stays_at_ambient_temperature,
    test_grid_spans_the_bounding_box_of_rotated_geoms,
    test_heat_sources_warm_their_cells,
    test_heated_bar_has_a_cosh_profile,
    test_insulated_bar_has_a_linear_profile,
    test_reset_restores_initial_temperatures_of_those_envs_only,
    test_sensing_element_lags_with_its_time_constant,
    test_separate_bodies_exchange_no_heat,
    test_stiff_grids_are_stable,
    test_thin_plate_cools_by_radiation,
    test_uniform_grid_cools_exponentially,
)


def test_temperatures_agree_with_the_cpu(monkeypatch):
    """Links that touch each other and the floor; parameters and resets per env."""
    plain, graph = build_both(lambda: press_scene(n_envs=4, sensors=HEAT), monkeypatch)
    assert "after the graph" not in graph.describe()
    for step in range(60):
        for one in (plain, graph):
            one.step()
            if step == 30:
                one.reset(envs=[1, 2])
            if step == 31:
                press(one)
            if step == 40:
                one["warm"].set(sensor_time_constant=0.5, ambient=0.0, envs=[3])
                one["cool"].set(heat=torch.linspace(0, 9, 8), envs=[0])
        compare(plain, graph, f"at step {step}", 1e-6, 1e-5)
        if step == 29:
            cells = plain["warm"].read_ground_truth()
            below, above = cells[..., 0], cells[..., 1]
            assert (below - above).amin() > 0.01, "the box heats the finger from below"
