"""The way sensing goes on a GPU, walked on the CPU: MuJoCo's physics, with sensing in the world's own step and restart,
by the Warp kernels. Everything but CUDA itself: what is captured, what runs after, resets by mask."""

import pytest
import torch
from conftest import drop_scene
from probe import Probe, ProbeSensor
from thermometer import Thermometer

import sensorium as sn
from sensorium.testing import flat
from sensorium.worlds import MujocoWorld, scene, world

pytest.importorskip("warp")


class GraphWorld(MujocoWorld):
    """A MujocoWorld with the manners of the GPU world."""

    captures = True

    def __init__(self, model, n_envs, **options):
        self.on_step = self.after_step = self.on_restart = lambda *_: None
        self.sensed = torch.zeros(max(model.nsensordata, 1), n_envs)
        self.steps = torch.zeros(n_envs, dtype=torch.int32)
        self.mask = torch.ones(n_envs, dtype=torch.bool)
        super().__init__(model, n_envs, **options)

    def attach(self, on_step, after_step, on_restart):
        self.on_step, self.after_step, self.on_restart = on_step, after_step, on_restart

    def capture(self):
        """Nothing to capture."""

    def run(self, body):
        body()

    def cast(self, rays, envs):
        """By the kernel of the GPU world, on Warp's CPU device."""
        import mujoco_warp as mjw
        import warp as wp

        from sensorium.worlds import warp_rays

        if not hasattr(self, "m"):
            with wp.ScopedDevice("cpu"):
                self.m = mjw.put_model(self.model)
            self.meshes = warp_rays.MeshTrees(self.model, "cpu")
        shape = (self.n_envs, self.model.ngeom)
        poses = [self.bind(name).float() for name in ("geom_xpos", "geom_xmat")]
        places = wp.from_torch(poses[0], dtype=wp.vec3), wp.from_torch(poses[1].view(*shape, 3, 3), dtype=wp.mat33)
        warp_rays.cast(self.m, self.meshes, *places, rays, envs)

    def _see(self):
        if self.model.nsensordata:
            self.sensed.copy_(self.bind("sensordata").T)

    def step(self):
        failed = super().step()
        self.steps += 1
        self._see()
        self.on_step()
        self.after_step()
        return failed

    def _restarted(self, envs, failed):
        ids = world.env_ids(envs, self.n_envs)
        self.mask.fill_(ids is None)
        if ids is not None:
            self.mask[torch.from_numpy(ids).long()] = True
        self.steps.copy_((self.time / (self.model.opt.timestep * self.substeps)).round().int())
        self._see()
        self.on_restart(self.mask)
        return failed

    def reset(self, envs=None):
        return self._restarted(envs, super().reset(envs))

    def forward(self, envs=None):
        return self._restarted(envs, super().forward(envs))


class Eager(Probe):
    """A class whose hooks are not to be captured."""


class EagerSensor(ProbeSensor, options=Eager):
    capturable = False


class Older(Probe):
    """A class with a delay of its own, which cannot be captured."""


class OlderSensor(ProbeSensor, options=Older):
    @classmethod
    def _apply_delay(cls, group, ring, out):
        out.copy_(ring[1])


LATE = {"delay": 0.02, "jitter": 0.01}
SENSORS = (
    sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_random_walk=0.1, history_length=3, rate=40.0, **LATE),
    sn.presets.imu("consumer_mems", link="box", uuid="part"),
    sn.IMU(
        link="box",
        uuid="worse",
        acc_bandwidth=8.0,
        acc_outliers=0.2,
        acc_outlier_size=3.0,
        temperature=60.0,
        gyro_bias_instability=0.3,
        gyro_correlation_time=0.1,
        mag_temperature_drift=1e-6,
        stuck=3.0,
        **LATE,
    ),
    sn.Contact(link="box", uuid="touch", noise=1.0, threshold=1.0, **LATE),
    sn.FramePose(link="box", uuid="pose", pos_noise=0.01, rot_noise=0.01, dropout=0.2),
    Thermometer(link="box", uuid="heat", noise=0.1, time_constant=0.05, **LATE),
    Probe(uuid="probe", noise=0.1, random_walk=0.1, rate=30.0, history_length=2),
    Eager(uuid="eager", noise=0.1, **LATE),
    Older(uuid="older", noise=0.1, history_length=2),
)


def build(n_envs=5):
    made = drop_scene()
    for options in SENSORS:
        made.add_sensor(options)
    made.build(n_envs=n_envs, seed=8)
    return made


def test_graph_path_reads_what_the_plain_path_reads(monkeypatch):
    plain = build()
    with monkeypatch.context() as patched:
        patched.setattr(scene, "MujocoWorld", GraphWorld)
        graph = build()
    assert isinstance(graph.world, GraphWorld)
    text = graph.describe()
    assert text.count("after the graph") == 2
    assert text.count("in the graph") == 4

    def compare(when):
        for options in SENSORS:
            for read in ("read", "read_ground_truth"):
                expected, got = (flat(getattr(one[options.uuid], read)()) for one in (plain, graph))
                torch.testing.assert_close(got, expected, rtol=0, atol=0, msg=f"{options.uuid}.{read} {when}")

    compare("at build")
    for step in range(30):
        for one in (plain, graph):
            one.step()
        compare(f"at step {step}")
        if step == 9:
            for one in (plain, graph):
                one.reset(envs=[1, 3])
            compare("after a reset")
        if step == 15:
            for one in (plain, graph):
                one["imu"].set(acc_noise=1.0, rate=None, envs=[2])
                one["probe"].set(random_walk=0.0, dropout=0.5)
                one["touch"].set(threshold=5.0, envs=[0])
        if step == 20:
            for one in (plain, graph):
                one["box"].set_pose(pos=(0, 0, 1), envs=[4])
                one.forward(envs=[4])
            compare("after a forward")


def test_sensors_of_the_cpu_engine_say_so(monkeypatch):
    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    made = drop_scene()
    made.add_sensor(sn.ContactProbe(link="box", uuid="whisker"))
    with pytest.raises(sn.OptionError, match=r"ContactProbe needs the CPU engine.*'whisker'"):
        made.build()
