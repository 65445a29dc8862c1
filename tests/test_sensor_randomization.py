"""Imperfections of sensors that are drawn per env and episode, in tensor tasks."""

import pytest
import torch

import sensorium as sn


def walk(n_envs=64, **options):
    task = sn.tasks.make("walk", n_envs=n_envs, **options)
    task.reset()
    return task


def test_bound_values_act_on_readings():
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.1), free=True)
    imu = scene.add_sensor(sn.IMU(link="box", gyro_bias=0.5))
    scene.build(n_envs=3)
    bias, noise = imu.bind("gyro_bias"), imu.bind("gyro_noise")
    assert bias.shape == noise.shape == (3, 3)
    assert (bias == 0.5).all()
    bias[1] = torch.tensor([1.0, 2.0, 3.0])
    noise[2] = 0.1
    readings = []
    for _ in range(400):
        scene.step()
        readings.append(imu.read().ang_vel - imu.read_ground_truth().ang_vel)
    readings = torch.stack(readings)
    assert torch.allclose(readings[:, 0], torch.tensor(0.5))
    assert torch.allclose(readings[:, 1], torch.tensor([1.0, 2.0, 3.0]))
    assert torch.allclose(readings[:, 2].std(dim=0), torch.tensor(0.1), rtol=0.15)


def test_values_are_drawn_per_env_axis_and_episode_and_act():
    ranges = {"imu.gyro_bias": (-0.5, 0.5), "joints.noise": (0.0, 0.3)}
    task = walk(randomize_sensors=ranges, max_steps=20, observe=("imu", "joints"))
    drawn = task.observation()["privileged/sensor_parameters"]
    assert drawn.shape == (64, 3 + 12)
    assert len(drawn.unique()) == drawn.numel()
    assert drawn[:, :3].min() >= -0.5
    assert drawn[:, :3].max() < 0.5
    assert abs(float(drawn[:, :3].mean())) < 0.1
    assert drawn[:, 3:].min() >= 0
    assert drawn[:, 3:].max() < 0.3
    rig = task.robot.rig
    assert torch.equal(rig["imu"].bind("gyro_bias"), drawn[:, :3])
    errors = []
    for _ in range(19):
        observation, *_ = task.step(torch.zeros(64, 12))
        assert torch.equal(observation["privileged/sensor_parameters"], drawn)
        errors.append(rig["joints"].read().positions - rig["joints"].read_ground_truth().positions)
    spread = torch.stack(errors).std(dim=0)
    related = torch.corrcoef(torch.stack((spread.flatten(), drawn[:, 3:].flatten())))[0, 1]
    assert related > 0.7
    later, *_ = task.step(torch.zeros(64, 12))  # a new episode
    assert not (later["privileged/sensor_parameters"] == drawn).any()


def test_values_do_not_depend_on_the_batch():
    ranges = {"imu.gyro_bias": (-0.5, 0.5)}
    few, many = (walk(n, randomize_sensors=ranges, seed=5) for n in (2, 5))
    assert torch.equal(few.robot.rig["imu"].bind("gyro_bias"), many.robot.rig["imu"].bind("gyro_bias")[:2])


def test_bound_delays_and_rates_act_per_env():
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 9.0), free=True)
    late = scene.add_sensor(sn.Clock(uuid="late", max_delay=0.05))
    slow = scene.add_sensor(sn.Clock(uuid="slow", rate=100.0))
    scene.build(n_envs=3)
    delay, rate = late.bind("delay"), slow.bind("rate")
    assert delay.shape == rate.shape == (3, 1)
    assert (rate == 100.0).all()
    delay[:, 0] = torch.tensor([0.0, 0.03, 0.05])
    rate[:, 0] = torch.tensor([100.0, 50.0, 10.0])
    scene.reset()
    held = []
    for _ in range(40):
        scene.step()
        held.append(slow.age())
    assert torch.allclose(late.age().flatten(), torch.tensor([0.0, 0.03, 0.05], dtype=torch.float64), atol=1e-6)
    oldest = torch.stack(held).amax(dim=0).flatten()
    assert torch.allclose(oldest, torch.tensor([0.0, 0.01, 0.09], dtype=torch.float64), atol=1e-6)
    late.set(delay=0.02)  # ends the binding
    slow.set(rate=None)
    for _ in range(10):
        scene.step()
    assert torch.allclose(late.age(), torch.tensor(0.02, dtype=torch.float64), atol=1e-6)
    assert (slow.age() == 0).all()
    with pytest.raises(
        sn.OptionError, match="no memory was allocated for a delay; construct the sensor with max_delay"
    ):
        slow.bind("delay")


def test_timing_is_drawn_per_env_sensor_and_episode():
    ranges = {"joints.delay": (0.015, 0.08), "attitude.rate": (5.0, 50.0), "imu.dropout": (0.0, 0.5)}
    task = walk(randomize_sensors=ranges, max_steps=60)
    drawn = task.observation()["privileged/sensor_parameters"].double()
    assert drawn.shape == (64, 3)
    for column, (low, high) in enumerate(ranges.values()):
        assert drawn[:, column].min() >= low
        assert drawn[:, column].max() <= high
        assert drawn[:, column].max() - drawn[:, column].min() > 0.8 * (high - low)
    rig = task.robot.rig
    ages = {"joints": [], "attitude": []}
    for _ in range(59):
        task.step(torch.zeros(64, 12))
        for uuid, rows in ages.items():
            rows.append(rig[uuid].age().flatten())
    joints, attitude = (torch.stack(rows)[10:] for rows in ages.values())
    jitter = 0.015  # readings are as old as the delay, rounded up to whole steps of 20 ms, and up to the jitter older
    assert (joints >= drawn[:, 0] - 1e-6).all()
    assert (joints <= drawn[:, 0] + jitter + 0.02 + 1e-6).all()
    assert (attitude.amax(dim=0) >= 1 / drawn[:, 1] - 0.02).all()
    assert (attitude.amax(dim=0) <= 1 / drawn[:, 1] + 0.03 + 0.02 + 1e-6).all()
    later, *_ = task.step(torch.zeros(64, 12))  # a new episode
    assert not (later["privileged/sensor_parameters"].double() == drawn).any()
    few = walk(2, randomize_sensors=ranges, max_steps=60)
    assert torch.equal(few.robot.rig["joints"].bind("delay"), drawn[:2, :1].float().double())


def test_the_curriculum_eases_delays_but_not_rates():
    ranges = {"joints.delay": (0.03, 0.05), "attitude.rate": (5.0, 10.0)}
    task = walk(4, randomize_sensors=ranges, curriculum=True)
    full = walk(4, randomize_sensors=ranges)
    delay, drawn = (each.robot.rig["joints"].bind("delay") for each in (task, full))
    assert torch.allclose(delay, torch.tensor(0.015).double())  # the jitter: delays must not be below it
    assert (delay >= 0.015).all()
    assert (task.robot.rig["attitude"].bind("rate") >= 5.0).all()
    task.reseed(0)
    task.difficulty.fill_(0.5)
    task.reset()
    assert torch.allclose(delay, 0.5 * (0.015 + drawn))
    task.robot.rig["joints"].set(delay=delay.clone())


def test_the_curriculum_eases_a_delay_with_its_jitter():
    ranges = {"joints.delay": (0.03, 0.05), "joints.jitter": (0.01, 0.03)}
    task = walk(4, randomize_sensors=ranges, curriculum=True)
    delay, jitter = (task.robot.rig["joints"].bind(name) for name in ("delay", "jitter"))
    assert (delay == 0).all()
    assert (jitter == 0).all()
    task.difficulty.fill_(0.5)
    task.reset()
    assert (delay >= 0.015).all()
    assert (jitter <= delay).all()
    assert (jitter > 0.004).all()


@pytest.mark.parametrize(
    ("ranges", "error", "text"),
    [
        ({"imo.gyro_bias": (0, 1)}, sn.errors.NameNotFoundError, "did you mean 'imu'"),
        ({"imu.gyro_bais": (0, 1)}, sn.OptionError, "did you mean 'gyro_bias'"),
        ({"imu.substeps": (0, 1)}, sn.OptionError, "IMU.substeps cannot be changed after build"),
        ({"imu.stuck": (0, 1)}, sn.OptionError, "IMU.stuck cannot be bound; these can: rate, delay.*gyro_noise"),
        ({"imu.delay": (0, 1)}, sn.OptionError, r"jitter of 'imu', up to 0.015 s, must be <= its delay, from 0 s"),
        ({"imu.rate": (0, 50)}, sn.OptionError, r"the rate of 'imu' must be > 0, got \(0.0, 50.0\)"),
        (
            {"imu.rate": (50, 400)},
            sn.OptionError,
            r"^randomize_sensors: the rate of 'imu' must be <= 200 Hz, the rate of the physics, got \(50\.0, 400\.0\): "
            "lower it, or raise substeps of the task",
        ),
        (
            {"height_scan.noise": (0, 1)},
            sn.errors.NameNotFoundError,
            "there is no sensor 'height_scan'; there are 'imu'",
        ),
        ({"imu.gyro_bias": (1, 0)}, sn.OptionError, "low <= high"),
    ],
)
def test_mistakes(ranges, error, text):
    with pytest.raises(error, match=text):
        walk(2, randomize_sensors=ranges)


@pytest.mark.parametrize(
    ("key", "bounds", "text"),
    [
        ("imu.gyro_noise", (-1.0, -0.5), r"IMU\.gyro_noise must be >= 0, got -1"),
        ("imu.dropout", (0.0, 2.0), r"IMU\.dropout must be <= 1, got 2"),
        ("imu.gyro_resolution", (-1.0, -1.0), r"IMU\.gyro_resolution must be >= 0"),
        ("joints.jitter", (-0.1, 0.0), r"JointEncoder\.jitter must be >= 0"),
        ("imu.gyro_bis", (0.0, 1.0), r"IMU\.gyro_bis is not a parameter \(did you mean 'gyro_bias'"),
        ("imu", (0.0, 1.0), r"keys are SENSOR\.PARAMETER, such as 'imu\.gyro_bias'; got 'imu'"),
    ],
)
def test_ranges_that_a_sensor_does_not_accept(key, bounds, text):
    with pytest.raises(sn.OptionError, match=rf"^randomize_sensors: .*{text}"):
        walk(1, randomize_sensors={key: bounds})


RANGES = {"rate": (20.0, 50.0), "delay": (0.015, 0.03), "jitter": (0.0, 0.015)}


@pytest.mark.parametrize("uuid", ["imu", "joints", "attitude"])
def test_every_parameter_is_drawn_or_refused_by_name(uuid):
    sensor = walk(1).robot.rig[uuid]
    with pytest.raises(sn.OptionError, match="cannot be bound") as error:
        sensor.bind("stuck")
    accepted = str(error.value).partition("these can: ")[2].partition(". Use")[0].split(", ")
    for name in set(sensor.parameter_names) - set(accepted):
        with pytest.raises(sn.OptionError, match=rf"\.{name} cannot be bound; these can: "):
            sensor.bind(name)
    ranges = {f"{uuid}.{name}": RANGES.get(name, (0.1, 0.2)) for name in accepted}
    task = walk(2, randomize_sensors=ranges)
    drawn = task.observation()["privileged/sensor_parameters"]
    column = 0
    for name, (low, high) in zip(accepted, ranges.values(), strict=True):
        values = task.robot.rig[uuid].bind(name)
        assert torch.equal(values.float(), drawn[:, column : column + values.shape[1]]), name
        assert (values >= low - 1e-6).all(), name
        assert (values <= high + 1e-6).all(), name
        column += values.shape[1]
    assert column == drawn.shape[1]
    task.step(torch.zeros(2, 12))


@pytest.mark.parametrize("encoder", [{}, {"counts_per_revolution": 4096}])
def test_counts_per_revolution_cannot_be_drawn(encoder):
    """The pipeline stores the resolution that follows from them, in units of each joint."""
    rig = {"sensors": [{"name": "joints", "type": "JointEncoder", "options": encoder}]}
    text = r"^randomize_sensors: 'joints': JointEncoder\.counts_per_revolution cannot be bound; these can: .*resolution"
    with pytest.raises(sn.OptionError, match=text) as error:
        walk(2, rig=rig, observe=("joints",), randomize_sensors={"joints.counts_per_revolution": (1000, 4000)})
    assert "counts" not in str(error.value).partition("these can: ")[2]


def test_a_jitter_is_accepted_with_the_delay_of_its_range():
    ranges = {"imu.jitter": (0.0, 0.03), "imu.delay": (0.03, 0.05)}
    task = walk(4, randomize_sensors=ranges)
    drawn = task.observation()["privileged/sensor_parameters"]
    assert (drawn[:, 0] < 0.03).all()
    assert (drawn[:, 1] >= 0.03).all()


ROUGH = {"terrain": "rough", "ground": {"size": 12.0}, "observe_heights": True}


def test_the_height_scan_of_a_task_is_randomised():
    ranges = {"height_scan.noise": (0.01, 0.3), "height_scan.delay": (0.02, 0.08), "height_scan.rate": (20.0, 50.0)}
    task = walk(32, randomize_sensors=ranges, **ROUGH)
    drawn = task.observation()["privileged/sensor_parameters"].double()
    scan = task.scene.sensors["height_scan"]
    rays = scan.read().distances[0].numel()
    assert drawn.shape == (32, rays + 2)
    errors, ages = [], []
    for _ in range(40):
        task.step(torch.zeros(32, 12))
        errors.append((scan.read().distances - scan.read_ground_truth().distances).reshape(32, rays))
        ages.append(scan.age().flatten())
    spread = torch.stack(errors).std(dim=0).double()  # also the change of the height in the delay
    assert torch.corrcoef(torch.stack((spread.flatten(), drawn[:, :rays].flatten())))[0, 1] > 0.8
    oldest = torch.stack(ages)[10:].amax(dim=0)
    assert (oldest >= drawn[:, rays] - 1e-6).all()
    assert (oldest <= drawn[:, rays] + 1 / drawn[:, rays + 1] + 0.04).all()


class Ranged(sn.tasks.tensor.Walk):
    """A walk with a sensor of the task itself."""

    def add_sensors(self, scene):
        super().add_sensors(scene)
        self.clock = scene.add_sensor(sn.Clock(uuid="clock", delay=0.02))

    def observe(self):
        return {**super().observe(), "clock": self.clock.read()}


def test_a_sensor_of_an_own_task_is_randomised():
    config = {"n_envs": 3, "observe": ("imu",)}
    task = Ranged(sn.tasks.tensor.WalkConfig(**config, randomize_sensors={"clock.dropout": (0.2, 0.9)}))
    task.reset()
    dropout = task.scene.sensors["clock"].bind("dropout")
    assert torch.equal(dropout, task.observation()["privileged/sensor_parameters"].double())
    assert (dropout >= 0.2).all()
    with pytest.raises(sn.OptionError, match=r"randomize_sensors: 'clock': .*construct the sensor with max_delay"):
        Ranged(sn.tasks.tensor.WalkConfig(**config, randomize_sensors={"clock.delay": (0.02, 0.1)}))
