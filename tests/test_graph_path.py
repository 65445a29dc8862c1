"""The GPU path of sensing, run on the CPU: MuJoCo's physics, with sensing by the Warp kernels in the world's own step
and restart. It covers everything except CUDA: which hooks are captured, which run after the graph, resets by mask."""

import numpy as np
import pytest
import torch
from conftest import drop_scene
from probe import Probe, ProbeSensor
from thermometer import Thermometer

import sensorium as sn
from sensorium import _tensors
from sensorium.pipeline.storage import TimingStore
from sensorium.pipeline.timing import TimingParameters
from sensorium.suites.state import env_states
from sensorium.testing import flat
from sensorium.worlds import MujocoWorld, scene, world

pytest.importorskip("warp")


class GraphWorld(MujocoWorld):
    """A MujocoWorld with the interface of the GPU world."""

    is_gpu = True
    can_retrace = False

    def __init__(self, model, n_envs, **options):
        self.on_step = self.after_step = self.on_begin = self.on_restart = lambda *_: None
        self.sensed = torch.zeros(max(model.nsensordata, 1), n_envs)
        self.steps = torch.zeros(n_envs, dtype=torch.int32)
        self.mask = torch.ones(n_envs, dtype=torch.bool)
        super().__init__(model, n_envs, **options)

    def attach(self, on_step, after_step, on_begin, on_restart, after_restart, on_substep=None, delays_substeps=False):
        self.on_step, self.after_step, self.on_begin = on_step, after_step, on_begin
        self.on_restart = lambda mask: (on_restart(mask), after_restart(mask))
        if on_substep is not None:
            self.on_substep = lambda: (self._copy_sensor_data(), on_substep())

    @property
    def substep_sensed(self):
        return self.sensed

    def capture(self):
        """Do nothing: there is no CUDA."""

    def run(self, body):
        body()

    def record_loop(self, before, end, ended, after):
        def run():
            before()
            failed = self.step()
            end()
            self.reset(ended)
            after()
            return failed

        return run

    def cast(self, rays, envs):
        """Cast rays by the kernel of the GPU world, on Warp's CPU device."""
        import mujoco_warp as mjw
        import warp as wp

        from sensorium.worlds import warp_rays

        if not hasattr(self, "m"):
            with wp.ScopedDevice("cpu"):
                self.m = mjw.put_model(self.model)
            self.meshes = warp_rays.MeshTrees(self.model, "cpu")
        shape = (self.n_envs, self.model.ngeom)
        poses = [self.bind(name).float() for name in ("geom_xpos", "geom_xmat")]
        frames = wp.from_torch(poses[0], dtype=wp.vec3), wp.from_torch(poses[1].view(*shape, 3, 3), dtype=wp.mat33)
        warp_rays.cast(self.m, self.meshes, *frames, rays, envs)

    def _copy_sensor_data(self):
        if self.model.nsensordata:
            self.sensed.copy_(self.bind("sensordata").T)

    def step(self):
        failed = super().step()
        self.steps += 1
        self._copy_sensor_data()
        self.on_step()
        self.after_step()
        return failed

    def _restarted(self, envs, failed, fresh):
        ids = world.env_ids(envs, self.n_envs)
        self.mask.fill_(ids is None)
        if ids is not None:
            self.mask[torch.from_numpy(ids).long()] = True
        self.steps.copy_((self.time / (self.model.opt.timestep * self.substeps)).round().int())
        self._copy_sensor_data()
        if fresh:
            self.on_begin(self.mask)
        self.on_restart(self.mask)
        return failed

    def reset(self, envs=None):
        return self._restarted(envs, super().reset(envs), fresh=True)

    def forward(self, envs=None):
        return self._restarted(envs, super().forward(envs), fresh=False)


class Eager(Probe):
    """A probe whose hooks must not be captured."""


class EagerSensor(ProbeSensor, options=Eager):
    capturable = False


class Older(Probe):
    """A probe with its own delay hook, which cannot be captured."""


class OlderSensor(ProbeSensor, options=Older):
    @classmethod
    def _apply_delay(cls, group, ring, out):
        out.copy_(ring[1])


DELAY = {"delay": 0.02, "jitter": 0.02}
SENSORS = (
    sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_random_walk=0.1, history_length=3, rate=40.0, **DELAY),
    sn.presets.imu("consumer_mems", link="box", uuid="part"),
    sn.IMU(
        link="box",
        uuid="worse",
        acc_bandwidth=8.0,
        acc_outliers=0.2,
        acc_outlier_size=3.0,
        temperature=60.0,
        gyro_drift=0.3,
        gyro_drift_time=0.1,
        mag_temperature_drift=1e-6,
        stuck=3.0,
        **DELAY,
    ),
    sn.Contact(link="box", uuid="touch", noise=1.0, threshold=1.0, **DELAY),
    sn.FramePose(link="box", uuid="pose", pos_noise=0.01, rot_noise=0.01, dropout=0.2),
    Thermometer(link="box", uuid="heat", noise=0.1, time_constant=0.05, **DELAY),
    Probe(uuid="probe", noise=0.1, random_walk=0.1, rate=30.0, history_length=2),
    Eager(uuid="eager", noise=0.1, **DELAY),
    Older(uuid="older", noise=0.1, history_length=2),
)


def build(n_envs=5):
    made = drop_scene()
    for options in SENSORS:
        made.add_sensor(options)
    made.build(n_envs=n_envs, seed=8)
    return made


def test_graph_path_reads_the_same_bits_as_the_cpu_path(monkeypatch):
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


@pytest.fixture
def graphs(monkeypatch):
    """Build scenes on the GPU path."""
    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)


@pytest.mark.usefixtures("graphs")
def test_recording_does_not_change_readings_of_a_running_scene(tmp_path):
    """On the GPU path a replay restarts sensors at every step, so a recording does not restart them at its start."""
    made, alone = build(), build()
    made.step(7)
    alone.step(7)
    with sn.recording.Recorder(made, tmp_path / "a") as recorder:
        with pytest.raises(sn.DatasetError, match="already being recorded"):
            sn.recording.Recorder(made, tmp_path / "b")
        for _ in range(5):
            made.step()
            alone.step()
            recorder.step()
            assert torch.equal(flat(made["imu"].read()), flat(alone["imu"].read()))
    assert len(sn.datasets.open(tmp_path / "a")) == 5
    with sn.recording.Recorder(made, tmp_path / "c"):
        pass


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("where", ["storage", "capture"])
def test_too_little_memory_raises_with_what_to_lower(monkeypatch, recwarn, where):
    from sensorium.pipeline import storage

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 40.00 GiB.")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * 2**30, 80 * 2**30))
    monkeypatch.setattr(*((storage.DeliveryStore, "allocate") if where == "storage" else (GraphWorld, "capture")), full)
    made = drop_scene()
    made.add_sensor(sn.Contact(link="box", delay=1.0))
    with pytest.raises(
        sn.DeviceError, match=r"sensors and model fields of 4 envs: 2\.0 of 80\.0 GiB are free\. Lower n_envs"
    ):
        made.build(n_envs=4)
    assert not recwarn.list  # no warning about hooks that cannot be captured
    monkeypatch.undo()
    made.build(n_envs=4)


@pytest.mark.parametrize(
    ("room", "values", "message"),
    [
        (0.0, {"delay": 0.02}, "max_delay=0.02"),
        (0.0, {"delay": torch.zeros(4, 1, device="meta")}, "construct the sensor with max_delay"),
        (0.05, {"delay": 5.0}, "max_delay=5"),
        (0.05, {"jitter": 0.03}, "jitter 0.03 s with delay 0.02 s"),
        (0.05, {"delay": [[0.01], [0.06], [0.0], [0.0]]}, "max_delay=0.06"),
        (0.05, {"delay": 0.01, "jitter": 0.02}, "jitter 0.02 s with delay 0.01 s"),
        (0.05, {"delay": torch.zeros(4, 1, device="meta"), "jitter": 0.07}, "max_delay=0.07"),
        (0.05, {"delay": torch.zeros(4, 1, device="meta"), "jitter": 0.05}, None),
        (0.05, {"delay": 0.05}, None),
        (0.0, {"jitter": None}, None),
        (0.05, {"delay": None}, None),
    ],
)
def test_delays_are_checked_if_the_host_knows_them(room, values, message, monkeypatch):
    """The "meta" device, which has no values and which users cannot pass, stands in for a GPU."""
    monkeypatch.setattr(_tensors, "unusual_kind", lambda tensor: None)
    store = TimingStore.allocate([0], np.zeros((1, 2), np.uint32), 4, torch.device("meta"))
    timing = TimingParameters(store, [room], [room > 0], [False], 0.01)
    timing.note(0, {"delay": np.float32(0.02) if room else 0.0, "jitter": 0.0})
    if not room:
        timing.note(0, {"delay": 0.0}, torch.tensor([1]))  # in one env, so the value of all envs is not known
    if message is None:
        timing.check(0, "IMU", values, None)
        return
    with pytest.raises(sn.OptionError, match=message):
        timing.check(0, "IMU", values, None)


@pytest.mark.parametrize(
    ("envs", "message"),
    [
        (torch.zeros(4), "integer ids or a boolean mask, got torch.float32"),
        (torch.zeros(2, 2, dtype=torch.int64), r"got torch.int64 of shape \(2, 2\)"),
        (torch.zeros(1, dtype=torch.bool), r"must have shape \(4,\), got \(1,\)"),
        (torch.zeros(4, 1, dtype=torch.bool), r"must have shape \(4,\), got \(4, 1\)"),
    ],
)
def test_dtype_and_shape_of_envs_on_a_gpu_are_checked(envs, message):
    with pytest.raises(sn.OptionError, match=message):
        world.env_index(envs.to("meta"), 4, torch.device("meta"))


@pytest.mark.parametrize("device", [None, 1.5, "gpu", "mps", ""])
def test_unknown_devices_raise(device):
    with pytest.raises(sn.OptionError, match="device must be 'cpu', 'cuda' or one of several such as 'cuda:1'"):
        drop_scene().build(device=device)


@pytest.mark.usefixtures("graphs")
def test_return_dtypes_without_gpu_support_raise():
    class Counts(Probe):
        """A probe that returns unsigned 16-bit integers."""

    class CountsSensor(ProbeSensor, options=Counts):
        @classmethod
        def _get_cache_dtype(cls):
            return torch.uint16

        @classmethod
        def _post_process(cls, group, data, out, is_measured):
            out.copy_(data)

    made = drop_scene()
    made.add_sensor(Counts(uuid="c"))
    with pytest.raises(sn.OptionError, match=r"CountsSensor: readings of dtype torch.uint16.*device='cpu'"):
        made.build()


def test_observations_of_the_state_are_those_of_the_cpu_path(monkeypatch):
    plain = build()
    with monkeypatch.context() as patched:
        patched.setattr(scene, "MujocoWorld", GraphWorld)
        graph = build()
    for one in (plain, graph):
        one.world.bind("qvel")[:] = torch.linspace(-1.0, 1.0, one.world.bind("qvel").numel()).view(5, -1)
        one.forward()
        one.step(3)
    ours, theirs = (env_states(one).read()["actors"]["box"] for one in (graph, plain))
    assert ours.dtype == theirs.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert abs(ours[:, 7:]).max() > 0.1


def test_cpu_only_sensors_raise_on_a_gpu(monkeypatch):
    class Host(Probe):
        """A probe whose hooks need the CPU engine."""

    class HostSensor(ProbeSensor, options=Host):
        cpu_only = True

    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    made = drop_scene()
    made.add_sensor(Host(uuid="whisker"))
    with pytest.raises(sn.OptionError, match=r"Host needs the CPU engine.*'whisker'"):
        made.build()
