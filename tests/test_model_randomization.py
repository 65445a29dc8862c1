"""The option ``randomize`` of tensor tasks: each value by its effect on the motion, on both engines."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.tasks.tensor import ModelRandomization, TensorTask, TensorTaskConfig

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
N = 6
MODEL = """
<mujoco model="sled">
  <worldbody>
    <body name="sled" pos="0 0 0.05">
      <freejoint/>
      <geom name="box" type="box" size="0.5 0.5 0.05" mass="2" friction="0.4 0 0" {priority}/>
      <body name="wheel" pos="0 0 0.08">
        <joint name="wheel" axis="0 0 1"/>
        <geom type="cylinder" size="0.1 0.02" mass="0.5" contype="0" conaffinity="0"/>
        <body name="arm" pos="0 0 0.04">
          <joint name="arm" axis="0 0 1"/>
          <geom type="box" size="0.05 0.01 0.01" mass="0.1" contype="0" conaffinity="0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="motor" joint="wheel" gear="1" ctrlrange="-9 9"/>
    <position name="servo" joint="arm" kp="5" kv="0.2" forcerange="-3 3" ctrlrange="-9 9"/>
  </actuator>
</mujoco>
"""
"""A box with a motor and a servo on it. Their motion does not change that of the box along x."""


class Pull(TensorTask[TensorTaskConfig]):
    """A sled that slides on the ground; a free cube is in the scene, too."""

    name = "pull"

    def add_scene(self, scene):
        super().add_scene(scene)
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=3.0), name="cube", pos=(0, 3, 0.1), free=True)

    def rewards(self):
        return {"none": torch.zeros(self.n_envs, device=self.device)}


@pytest.fixture
def sled(tmp_path):
    """Return a function that makes the task: device, priority of the box in contacts, options."""

    def make(device="cpu", priority='priority="1"', n_envs=N, kind=Pull, **options):
        path = tmp_path / f"sled{len(list(tmp_path.iterdir()))}.xml"
        path.write_text(MODEL.format(priority=priority))
        options = {"dt": 0.01, "substeps": 5, "max_steps": 10_000, **options}
        task = kind(TensorTaskConfig(robot=str(path), n_envs=n_envs, device=device, **options))
        task.reset()
        return task

    return make


CUBE, SLED_X, WHEEL = 0, 6, 12
"""Columns of velocities along x, and of the wheel; the position of the sled has its height in column 9."""


def raise_sled(task):
    task.scene.world.bind("qpos")[:, 9] = 1.0


def act(task, motor=0.0, servo=0.0, steps=1):
    for _ in range(steps):
        task.step(torch.tensor([motor, servo], device=task.device).repeat(task.n_envs, 1))


def drawn(task, name):
    """Return the values of the running episodes, (B,)."""
    values = task.observation()[f"privileged/{name}"][:, 0].double().cpu()
    assert len(values.unique()) == len(values)
    return values


def speeds(task):
    return task.scene.world.bind("qvel").double().cpu().clone()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factors", [True, False])
def test_masses_and_a_payload_act_on_the_acceleration(sled, device, factors):
    ranges = {"payload": (-0.5, 1.5), **({"mass": (0.7, 1.4)} if factors else {})}
    task = sled(device, randomize=ranges)
    world = task.scene.world
    raise_sled(task)
    world.bind("xfrc_applied")[:, task.scene.model.body("robot/sled").id, 2] = 3.0  # through the centre of mass
    act(task)
    scale = drawn(task, "mass") if factors else 1.0
    mass = 2.6 * scale + drawn(task, "payload")
    torch.testing.assert_close(speeds(task)[:, SLED_X + 2], (3.0 / mass - 9.81) * 0.01, rtol=1e-4, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_mass_scales_the_inertia(sled, device):
    task = sled(device, randomize={"mass": (0.5, 2.0)})
    raise_sled(task)
    act(task, motor=0.01)
    one = sled(device)
    raise_sled(one)
    act(one, motor=0.01)
    expected = speeds(one)[:, WHEEL] / drawn(task, "mass")  # there is no armature; the servo is weak
    torch.testing.assert_close(speeds(task)[:, WHEEL], expected, rtol=3e-3, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_friction_acts_on_the_deceleration(sled, device):
    task = sled(device, randomize={"friction": (0.5, 2.0)})
    act(task, steps=20)  # settles
    task.scene.world.bind("qvel")[:, SLED_X] = 3.0
    act(task, steps=2)
    before = speeds(task)
    act(task, steps=20)
    change = speeds(task) - before
    impulse = 9.81 * 0.2 + change[:, SLED_X + 2]  # of the ground on 1 kg
    torch.testing.assert_close(-change[:, SLED_X], 0.4 * drawn(task, "friction") * impulse, rtol=0.02, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_gains_and_strength_act_on_the_forces(sled, device):
    ranges = {"stiffness": (0.5, 2.0), "damping": (0.5, 2.0), "strength": (0.5, 2.0)}
    task = sled(device, randomize=ranges)
    world, arm = task.scene.world, task.scene.model.joint("robot/arm")
    forces = world.bind("actuator_force")
    act(task, motor=2.0, servo=0.3)
    torch.testing.assert_close(forces[:, 0].double().cpu(), 2.0 * drawn(task, "strength"), rtol=1e-5, atol=0)
    # in one short physics step
    still = sled(device, dt=0.0001, substeps=1, randomize=ranges)
    world = still.scene.world
    forces = world.bind("actuator_force")
    world.bind("qpos")[:, int(arm.qposadr[0])] = 0.1
    world.bind("qvel")[:, int(arm.dofadr[0])] = 0.5
    act(still, servo=0.2)
    force = forces[:, 1].double().cpu()
    expected = 5.0 * drawn(still, "stiffness") * (0.2 - 0.1) - 0.2 * drawn(still, "damping") * 0.5
    torch.testing.assert_close(force, expected, rtol=1e-4, atol=1e-4)
    act(still, servo=9.0)
    force = forces[:, 1].double().cpu()
    torch.testing.assert_close(force, 3.0 * drawn(still, "strength"), rtol=1e-5, atol=0)


LIMITED = """
<mujoco model="limited">
  <worldbody>
    <body name="base">
      <freejoint/>
      <geom type="box" size="0.1 0.1 0.1" mass="2" contype="0" conaffinity="0"/>
      <body><joint name="a" axis="1 0 0"{of_joint}/><geom type="sphere" size="0.02" mass="0.1" pos="0 0 0.1"/></body>
    </body>
  </worldbody>
  <actuator>{actuator}</actuator>
</mujoco>
"""
"""A joint whose torque is limited in one of several ways."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("of_joint", "actuator", "torque"),
    [
        ("", '<motor name="a" joint="a" gear="3" ctrlrange="-1 1"/>', 3.0),
        ("", '<motor name="a" joint="a" gear="3" ctrlrange="-1 1" forcerange="-0.5 0.5"/>', 1.5),
        (' actuatorfrcrange="-2 2"', '<motor name="a" joint="a" gear="3" ctrlrange="-1 1"/>', 2.0),
        (' actuatorfrcrange="-2 2"', '<position name="a" joint="a" kp="20" ctrlrange="-1 1"/>', 2.0),
        ("", '<position name="a" joint="a" kp="20" ctrlrange="-1 1" forcerange="-2 2"/>', 2.0),
    ],
)
def test_strength_scales_the_torque_that_acts(tmp_path, device, of_joint, actuator, torque):
    path = tmp_path / "limited.xml"
    path.write_text(LIMITED.format(of_joint=of_joint, actuator=actuator))
    options = {"dt": 0.0001, "substeps": 1, "randomize": {"strength": (0.5, 2.0)}}
    task = Pull(TensorTaskConfig(robot=str(path), n_envs=N, device=device, **options))
    acting = task.scene.world.bind("qfrc_actuator")
    task.reset()
    task.step(torch.ones(N, 1, device=task.device))
    torch.testing.assert_close(acting[:, -1].double().cpu(), torque * drawn(task, "strength"), rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_damping_of_velocity_servos_keeps_their_target(tmp_path, device):
    path = tmp_path / "limited.xml"
    actuator = '<velocity name="a" joint="a" kv="0.4" ctrlrange="-1 1"/>'
    path.write_text(LIMITED.format(of_joint="", actuator=actuator))
    options = {"dt": 0.0001, "substeps": 1, "randomize": {"damping": (0.5, 2.0)}}
    task = Pull(TensorTaskConfig(robot=str(path), n_envs=N, device=device, **options))
    force = task.scene.world.bind("actuator_force")
    task.reset()
    task.scene.world.bind("qvel")[:, -1] = 0.3
    task.step(torch.ones(N, 1, device=task.device))
    expected = 0.4 * drawn(task, "damping") * (1.0 - 0.3)
    torch.testing.assert_close(force[:, 0].double().cpu(), expected, rtol=1e-4, atol=0)


def test_the_centre_of_mass_of_a_robot_with_other_masses(sled):
    task = sled(randomize={"mass": (0.5, 2.0), "payload": (0.5, 1.0)})
    world, model = task.scene.world, task.scene.model
    found, position = world.bind("subtree_com"), world.bind("xipos")
    world.bind("qpos")[:, 7] = 10.0  # a wrong mass would show far from the origin
    act(task)
    robot = [body for body in range(model.nbody) if model.body(body).name.startswith("robot/")]
    masses = world.expand("body_mass")[:, robot, None]
    expected = (masses * position[:, robot]).sum(dim=1) / masses.sum(dim=1)
    torch.testing.assert_close(found[:, robot[0]], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_the_mass_of_objects_with_its_constants_is_that_of_a_model_of_this_mass(sled, device):
    task = sled(device, randomize={"object_mass": (0.3, 3.0)})
    world, cube = task.scene.world, task.scene.model.body("cube").id
    world.bind("qpos")[:, 2] = 1.0
    world.bind("xfrc_applied")[:, cube, 0] = 3.0
    act(task)
    mass = 3.0 * drawn(task, "object_mass")
    torch.testing.assert_close(speeds(task)[:, CUBE], 3.0 * 0.01 / mass, rtol=2e-4, atol=0)
    for env in range(N):
        spec = mujoco.MjSpec.from_string(task.scene.to_xml())
        next(iter(spec.body("cube").geoms)).mass = float(mass[env])
        model = spec.compile()
        dofs = model.dof_bodyid == model.body("cube").id
        for field in ("body_mass", "body_inertia", "body_subtreemass", "body_invweight0"):
            value = world.expand(field)[env, cube].double().cpu().numpy()
            np.testing.assert_allclose(value, getattr(model, field)[cube], rtol=1e-4, err_msg=field)
        value = world.expand("dof_invweight0")[env].double().cpu().numpy()
        np.testing.assert_allclose(value[dofs], model.dof_invweight0[dofs], rtol=1e-4)


def test_values_depend_on_the_env_and_episode_alone(sled):
    ranges = {"mass": (0.5, 2.0), "friction": (0.5, 2.0), "object_mass": (0.5, 2.0)}
    few, many = (sled(n_envs=n, randomize=ranges, max_steps=2, seed=4) for n in (2, 5))
    for _ in range(2):
        for field in ("body_mass", "body_inertia", "geom_friction", "dof_invweight0"):
            one, other = (task.scene.world.expand(field) for task in (few, many))
            assert torch.equal(one, other[:2])
        before = few.scene.world.expand("body_mass").clone()
        for task in (few, many):
            act(task, steps=2)
        assert few.episode.tolist() == many.episode[:2].tolist()
    assert (few.scene.world.expand("body_mass") != before)[:, 1:].any()


def test_what_is_not_drawn_is_neither_expanded_nor_observed(sled):
    task = sled(randomize={"friction": (1.0, 1.0)})
    assert not task.scene.world.expanded
    assert not [
        name for name in task.observation() if name.removeprefix("privileged/") in ModelRandomization.model_fields
    ]


@pytest.mark.parametrize(
    ("task", "name", "why"),
    [
        ("balance", "stiffness", "the robot has no servos with a position gain"),
        ("balance", "damping", "the robot has no servos with a velocity gain"),
        ("balance", "object_mass", "no body besides the robot can move"),
        ("reach", "payload", "the base of the robot cannot move; mass changes its other links"),
        ("reach", "object_mass", "no body besides the robot can move"),  # the target has no mass
    ],
)
def test_ranges_that_change_nothing_are_refused(task, name, why):
    robot = {"balance": "balancer", "reach": "franka"}[task]
    neutral = r"\(0.0, 0.0\)" if name == "payload" else r"\(1.0, 1.0\)"
    text = (
        rf"^randomize\.{name} must be {neutral} for the task '{task}' with the robot '{robot}', got \(0.9, 1.2\): {why}"
    )
    with pytest.raises(sn.OptionError, match=text):
        sn.tasks.make(task, device="cpu", randomize={name: (0.9, 1.2)})


def test_friction_that_the_ground_exceeds_is_refused(sled):
    text = r"^randomize\.friction must be .*: no contact has the friction of the robot's geoms; give those"
    with pytest.raises(sn.OptionError, match=text):
        sled(priority="", randomize={"friction": (0.5, 2.0)})  # at most 0.8, and that of the floor is 1
    sled(priority="", randomize={"friction": (0.5, 3.0)})


@pytest.mark.parametrize("name", ["mass", "object_mass"])
def test_masses_are_positive(name):
    with pytest.raises(sn.OptionError, match=rf"ModelRandomization\.{name} must be \(low, high\) with low > 0"):
        ModelRandomization(**{name: (0.0, 1.0)})


def test_a_payload_is_checked_together_with_the_mass(sled):
    text = (
        r"must be > -1 kg, since the link 'sled' has a mass of 2 kg, times randomize\.mass, from 0\.5; got \(-1\.5, 0\)"
    )
    with pytest.raises(sn.OptionError, match=text):
        sled(randomize={"payload": (-1.5, 0.0), "mass": (0.5, 1.0)})


def test_names_of_a_task_and_its_randomisation_must_differ(sled):
    class Own(Pull):
        def observe_privileged(self):
            return {"mass": torch.zeros(self.n_envs, 1)}

    sled(kind=Own)
    with pytest.raises(sn.OptionError, match="observe_privileged: 'mass' is the name of what randomize draws"):
        sled(kind=Own, randomize={"mass": (0.5, 1.0)})


def test_an_option_of_another_class_is_refused(sled, tmp_path):
    class Ranges(sn.Options):
        mass: tuple[float, float] = (1.0, 1.0)

    class Config(TensorTaskConfig):
        randomize: Ranges = Ranges()

    class Own(Pull):
        config_type = Config

    with pytest.raises(
        sn.OptionError, match=r"randomize of a tensor task must be a sn\.tasks.tensor.ModelRandomization"
    ):
        Own(Config(robot="diffdrive"))


def test_too_many_envs_for_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr("sensorium._system.free_memory", lambda: 15_000_000)
    text = r"^n_envs=4000: the observations of the task need .* of memory, and 14\.3 MiB are free; use n_envs <= (\d+)$"
    with pytest.raises(sn.OptionError, match=text) as error:
        sn.tasks.make("walk", n_envs=4000)
    assert 3000 < int(str(error.value).split()[-1]) < 4000
    text = "^n_envs=4000: the fields of the model that randomize changes need "
    with pytest.raises(sn.OptionError, match=text):
        sn.tasks.make(
            "walk", n_envs=4000, observe=(), rig=sn.robots.SensorRig(sensors=[{"name": "one", "type": "Clock"}])
        )


def test_forces_that_are_bound_between_steps_are_never_those_of_another_env(sled):
    task, early = sled(), sled()
    first = early.scene.world.bind("actuator_force")
    motor = torch.stack((torch.arange(N) + 1.0, torch.zeros(N)), dim=1)
    for each in (task, early):
        each.step(motor)
    late = task.scene.world.bind("actuator_force")
    assert (late == 0).all()
    task.step(motor)
    early.step(motor)
    assert torch.equal(late, first)
    assert torch.equal(late[:, 0], motor[:, 0].double())


def test_a_payload_that_only_adds_fits_every_base(tmp_path):
    light = '<geom type="box" size="0.1 0.1 0.1" mass="0.5"'
    path = tmp_path / "light.xml"
    path.write_text(
        LIMITED.format(of_joint="", actuator='<motor name="a" joint="a" ctrlrange="-1 1"/>').replace(
            '<geom type="box" size="0.1 0.1 0.1" mass="2"', light
        )
    )
    Pull(TensorTaskConfig(robot=str(path), randomize={"payload": (0.0, 1.0)}))
    with pytest.raises(sn.OptionError, match=r"payload must be > -0\.5 kg.* got \(-1, 1\): raise the lower bound"):
        Pull(TensorTaskConfig(robot=str(path), randomize={"payload": (-1.0, 1.0)}))


def test_ranges_are_finite_as_float32():
    with pytest.raises(sn.OptionError, match=r"ModelRandomization\.mass must be \(low, high\) with values <= 1e\+06"):
        ModelRandomization(mass=(1.0, 1e30))


def test_a_keyframe_beside_a_robot_object_is_refused():
    robot = sn.robots.make("balancer")
    with pytest.raises(
        sn.OptionError, match="keyframe must be None with a robot object, whose robot has a pose of its own"
    ):
        sn.tasks.make("balance", robot=robot, device="cpu", keyframe="home")


@pytest.mark.parametrize("device", DEVICES)
def test_a_reset_of_some_envs_leaves_the_model_of_the_others(sled, device):
    task = sled(device, randomize={"mass": (0.5, 2.0), "stiffness": (0.5, 2.0), "friction": (0.5, 2.0)})
    world = task.scene.world
    fields = [world.expand(name) for name in ("body_mass", "body_inertia", "actuator_gainprm", "geom_friction")]
    before = [field.clone() for field in fields]
    some = torch.tensor([True, False, True, False, False, True], device=task.device)
    task.scene.reset(some)
    for field, old in zip(fields, before, strict=True):
        assert torch.equal(field[~some], old[~some])
        assert not bool((field == old)[some].flatten(1).all(dim=1).any())
