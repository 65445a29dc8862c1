"""Touch and proximity sensors with the GPU backend, run on Warp's CPU device (see test_graph_path.py).

Closed forms and contracts that hold for the CPU backend hold for it too. From the same poses and contacts, readings of
both backends agree to rounding in float32, with the same random bits.
"""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from test_graph_path import GraphWorld
from test_graph_sensors import build_both, compare, graph_world  # noqa: F401
from touch_everywhere import PRESSES, PROBES, Agreement, press, press_scene, probes_scene, start

import sensorium as sn
from sensorium.sensors.touch.gpu_probe_field import GpuProbeField
from sensorium.sensors.touch.probe_field import ProbeField
from sensorium.testing import flat, tensors
from sensorium.worlds import scene as scenes

pytest.importorskip("warp")

# closed forms and contracts, which the fixture graph_world runs with the GPU backends
from test_distance import (  # noqa: F401
    test_distances_inside_and_outside_agree_with_dense_samples,
    test_distances_outside_agree_with_mujoco,
    test_distances_to_a_height_field,
    test_ellipsoid_on_its_axes_and_as_a_sphere,
    test_mesh_of_a_box_agrees_with_a_box,
    test_own_robot_is_ignored_unless_tracked,
    test_proximity_reads_the_nearest_surface_and_saturates,
)
from test_elastomer import (  # noqa: F401
    test_dilation_is_linear_in_depth_inverse_thickness_and_poisson_ratio,
    test_dilation_is_outward_symmetric_and_decays,
    test_drag_follows_the_body_until_it_slips,
    test_gel_does_not_move_without_contact,
    test_one_indented_marker_has_the_documented_kernel,
)
from test_normal_depth import (  # noqa: F401
    test_balls_and_lying_cylinders_up_to_one_radius,
    test_bodies_behind_and_beside_a_pad_are_not_felt,
    test_box_on_its_edge_and_ellipsoid,
    test_depths_agree_with_rays_of_mujoco,
    test_dilation_drag_and_slip_under_a_punch_are_the_documented_sums,
    test_flat_punches_press_every_marker_below_them,
    test_mesh_of_a_ball_is_within_one_percent,
    test_probes_read_the_depth_that_they_are_asked_for,
    test_springs_of_a_tactile_array_carry_the_volume_that_is_pressed_in,
    test_thin_bodies_and_bodies_too_deep_are_felt,
    test_wedges_of_a_mesh,
)
from test_tactile import (  # noqa: F401
    test_crosstalk_keeps_a_uniform_load_and_spreads_a_point,
    test_crosstalk_kernel_is_applied_with_normalised_rows,
    test_dead_taxels_read_zero,
    test_forces_on_a_curved_skin_add_up_to_the_contact_force,
    test_gains_are_drawn_once_per_taxel_and_env,
    test_only_contacts_with_tracked_links_count,
    test_shear_sticks_until_it_slips_on_the_friction_cone,
    test_spring_and_damper_along_the_normal,
    test_springs_follow_the_relative_motion,
    test_step_response_of_the_maxwell_branch,
    test_taxels_carry_a_torque_about_the_normal,
    test_taxels_carry_the_weight_at_its_centre_of_pressure,
    test_taxels_carry_the_wrench_of_a_load_on_a_slope,
    test_twist_about_the_normal_slips_at_its_limit,
)
from test_touch import (  # noqa: F401
    TestContactDepthProbe,
    TestContactProbe,
    TestElastomer,
    TestProximity,
    TestSpringArray,
    TestTactileArray,
    test_depth_of_a_probe_sphere,
    test_hysteresis_prevents_bouncing_of_a_noisy_switch,
    test_reset_keeps_the_switches_of_other_envs,
    test_sensors_of_different_sizes_do_not_affect_each_other,
    test_switch_closes_and_opens_at_its_thresholds,
)


@pytest.mark.slow
def test_probes_agree_with_the_cpu(monkeypatch):
    """Every sensor and kind of geom; parameters and resets per env."""
    plain, graph = build_both(lambda: probes_scene(n_envs=7), monkeypatch)
    assert "after the graph" not in graph.describe()
    seen = {uuid: torch.zeros(7) for uuid in plain.sensors}
    for step in range(30):
        for one in (plain, graph):
            one.step()
            if step == 8:
                one.reset(envs=[1, 4])
                start(one)
            if step == 12:
                one["springs"].set(gain_spread=0.5, noise=0.0, envs=[0, 3])
                one["any"].set(dead_fraction=0.0, relaxation_fraction=0.0)
                one["gel"].set(relaxation_time=0.5, dead_fraction=0.8, envs=[2])
            if step == 20:
                one.reset(envs=[0])
        compare(plain, graph, f"at step {step}", 1e-5, 1e-6)
        for uuid, sensor in plain.sensors.items():
            seen[uuid] += flat(sensor.read_ground_truth()).double().abs().sum(-1).float()
    for uuid, total in seen.items():
        assert (total > 0).sum() > 2, f"{uuid} finds too little"


@pytest.mark.slow
def test_random_numbers_have_the_bits_of_the_cpu(monkeypatch):
    """Probes that reach nothing and springs that do nothing: readings are those of the imperfections alone."""
    far = {"link": "eye", "pos": (0, 0, 40.0), "noise": 0.1, "random_walk": 0.1, "bias_spread": 1.0}
    skin = {"gain_spread": 0.3, "dead_fraction": 0.3, "relaxation_fraction": 0.5, "crosstalk_length": 0.01}
    sensors = (
        sn.ContactDepthProbe(uuid="depth", **far, **skin),
        sn.TactileArray(uuid="array", grid=(3, 3), spacing=0.01, stiffness=1.0, **far, **skin),
        sn.ElastomerDisplacement(uuid="gel", grid=(3, 3), **far, **skin),
        sn.Proximity(uuid="near", saturation=(-9.0, 9.0), **far),
    )
    plain, graph = build_both(lambda: probes_scene(sensors=sensors), monkeypatch)
    for step in range(12):
        for one in (plain, graph):
            one.step()
            if step == 6:
                one.reset(envs=[2])
        for uuid in ("depth", "array", "gel"):
            assert torch.equal(flat(graph[uuid].read()), flat(plain[uuid].read())), f"{uuid} at step {step}"
        near = graph["near"].read().distances, plain["near"].read().distances
        assert torch.equal(*near), f"near at step {step}"


@pytest.mark.slow
def test_shared_wrenches_agree_with_the_cpu(monkeypatch):
    plain, graph = build_both(lambda: press_scene(n_envs=4, sensors=PRESSES), monkeypatch)
    assert "after the graph" not in graph.describe()
    for step in range(60):
        for one in (plain, graph):
            one.step()
            if step == 30:
                one.reset(envs=[1, 2])
            if step == 31:
                press(one)
            if step == 45:
                one["skin"].set(gain_spread=0.0, noise=0.0, envs=[3])
        compare(plain, graph, f"at step {step}", 1e-5, 1e-6)
        if step == 29:
            for uuid in plain.sensors:
                force = plain[uuid].read_ground_truth().force
                assert (force.norm(dim=-1) > 0).sum(-1).min() > 3, f"{uuid}: the finger does not press"


class SingleWorld(GraphWorld):
    """A GraphWorld whose poses and velocities are float32, as those of the GPU world."""

    _ROUNDED: ClassVar = {"geom_xpos", "geom_xmat", "xpos", "xmat", "cvel", "subtree_com", "sensordata"}

    def __init__(self, model, n_envs, **options):
        self.rounded = {}
        super().__init__(model, n_envs, **options)

    def bind(self, field):
        if field not in self._ROUNDED:
            return super().bind(field)
        return self.rounded.setdefault(field, super().bind(field).float())

    def _copy_sensor_data(self):
        for field, values in self.rounded.items():
            values.copy_(super().bind(field))
        super()._copy_sensor_data()


@pytest.mark.slow
@pytest.mark.parametrize("make", [probes_scene, press_scene])
def test_single_precision_of_the_engine_is_enough(monkeypatch, make):
    """Kernels with float32 fields, as on a GPU: readings within the tolerances of both engines."""
    monkeypatch.setattr(scenes, "MujocoWorld", GraphWorld.__base__)
    exact = make(n_envs=16)
    monkeypatch.setattr(scenes, "MujocoWorld", SingleWorld)
    single = make(n_envs=16)
    assert single.world.bind("xpos").dtype == torch.float32
    agreement = Agreement()
    for step in range(40):
        for one in (exact, single):
            one.step()
        for uuid in exact.sensors:
            for read in ("read", "read_ground_truth"):
                expected, got = (getattr(one[uuid], read)() for one in (exact, single))
                names = getattr(expected, "_fields", ("value",))
                for name, a, b in zip(names, tensors(expected), tensors(got), strict=True):
                    agreement(f"{uuid}.{name}", f"{uuid}.{name} by {read} at step {step}", a, b)
    agreement.finish()


def test_reset_keeps_the_touch_of_other_envs():
    scene = probes_scene()
    scene.step(9)
    before = {uuid: flat(sensor.read()).clone() for uuid, sensor in scene.sensors.items()}
    scene.reset(envs=[2])
    for uuid, old in before.items():
        assert torch.equal(flat(scene[uuid].read())[[0, 1, 3, 4]], old[[0, 1, 3, 4]]), uuid


def test_an_episode_of_another_env_has_the_skin_of_that_env():
    skin = sn.ContactDepthProbe(
        uuid="skin", link="eye", positions=((0, 0, 0),) * 20, radius=9.0, gain_spread=0.3, dead_fraction=0.3
    )
    scene = probes_scene(n_envs=3, sensors=(skin,))

    def gains():
        return scene["skin"].read() / scene["skin"].read_ground_truth()

    first = gains()
    assert len(set(map(tuple, (first == 0).tolist()))) == 3, "other taxels are dead in each env"
    scene.set_episodes(4, envs=[0], env_ids=2)
    scene.step()
    torch.testing.assert_close(gains(), first)
    scene.reset(envs=[0])
    torch.testing.assert_close(gains(), first[[2, 1, 2]])


def test_kernels_agree_with_the_numba_kernels_in_every_pose(monkeypatch):
    """Bodies that the probes find, in many poses far from and inside of each other."""
    monkeypatch.setattr(scenes, "MujocoWorld", GraphWorld.__base__)
    scene = probes_scene(n_envs=200, sensors=PROBES[2:5])
    random = np.random.default_rng(3)
    scene.world.bind("qpos").copy_(torch.from_numpy(0.4 * random.normal(size=(200, scene.model.nq))))
    scene.forward()
    group = scene["any"].group
    numba, warp = ProbeField(group), GpuProbeField(group)
    numba.update()
    warp.update()
    np.testing.assert_array_equal(warp.body.numpy(), numba.body)
    np.testing.assert_allclose(warp.depth.numpy(), numba.depth, rtol=1e-6, atol=1e-7)
    nearest = slice(0, 48)  # the others measure along their normals
    np.testing.assert_allclose(warp.distance.numpy()[:, nearest], numba.distance[:, nearest], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(warp.point.numpy()[:, nearest], numba.point[:, nearest], rtol=1e-6, atol=1e-6)
    model = scene.model
    found = {int(model.geom_type[model.body_geomadr[b]]) for b in np.unique(numba.body[:, nearest]) if b > 0}
    assert len(found) == 6, "sphere, capsule, ellipsoid, cylinder, box, mesh; the world has plane and height field"


@pytest.mark.slow
def test_kernels_compile_for_cuda(tmp_path):
    """Warp's compiler for CUDA needs no GPU."""
    import warp as wp

    from sensorium.sensors.thermal import warp_kernels
    from sensorium.sensors.touch import (
        warp_elastomer_kernels,
        warp_field_kernels,
        warp_probe_kernels,
        warp_skin_kernels,
        warp_taxel_kernels,
    )

    touch = (warp_field_kernels, warp_probe_kernels, warp_taxel_kernels, warp_elastomer_kernels, warp_skin_kernels)
    for module in (*touch, warp_kernels):
        for kernel in vars(module).values():
            if isinstance(kernel, wp.Kernel) and kernel.is_generic:  # the engine's fields are float32
                types = [argument.type for argument in kernel.adj.args]
                generic = [isinstance(kind, wp.array) and kind.dtype is Any for kind in types]
                single = [
                    wp.array(dtype=wp.float32, ndim=kind.ndim) if is_any else kind
                    for kind, is_any in zip(types, generic, strict=True)
                ]
                wp.overload(kernel, single)
        wp.compile_aot_module(module, arch=80, module_dir=tmp_path, use_ptx=True)
    assert len(list(tmp_path.glob("*.ptx"))) == 6
