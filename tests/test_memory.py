"""The memory and the cluster buffer: compared with plain lists and closed forms, and under concurrent writers."""

import json
import multiprocessing
import pickle
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy.stats import chisquare

import sensorium as sn
from sensorium.entities import ClusterOptions, Memory, VectorizedClusterBuffer, kernels
from sensorium.entities.clusters import k_means

SPACE = spaces.Dict(
    {
        "imu": spaces.Box(-np.inf, np.inf, (6,)),
        "camera": spaces.Box(0, 255, (4, 5, 3), np.uint8),
        "touch": spaces.Box(0, 1, (1,), np.bool_),
        "joints": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    }
)
ACTION = spaces.Box(-1, 1, (3,))


def transitions(ids, space=SPACE, action=ACTION):
    """Return transitions in which every number follows from an id below 2**20, so that torn ones are detected."""
    ids = np.asarray(ids, np.int64)

    def rows(value, box):
        wide = np.asarray(value).reshape(-1, *[1] * len(box.shape))
        return np.broadcast_to(wide, (len(ids), *box.shape)).astype(box.dtype)

    def observe(shift):
        values = {np.dtype(np.bool_): ids % 2, np.dtype(np.uint8): (ids + shift) % 251}
        return {key: rows(values.get(box.dtype, ids + shift), box) for key, box in space.spaces.items()}

    return {
        "observation": observe(0),
        "action": rows(ids * 0.5, action),
        "reward": ids.astype(np.float32),
        "next_observation": observe(1),
        "terminated": ids % 3 == 0,
        "truncated": ids % 5 == 0,
    }


def same(batch, ids):
    """Return whether each row of a batch is the transition of its id in every field, (n,) bool."""
    space = {"imu": SPACE["imu"], "camera": SPACE["camera"], "touch": SPACE["touch"], "joints": SPACE["joints"]}
    wanted = transitions(ids, spaces.Dict({key: space[key] for key in batch.observation}))
    good = np.ones(len(ids), bool)
    for name in ("observation", "next_observation"):
        for key, value in wanted[name].items():
            good &= (getattr(batch, name)[key].numpy() == value).reshape(len(ids), -1).all(1)
    for name in ("action", "reward", "terminated", "truncated"):
        good &= (getattr(batch, name).numpy() == wanted[name]).reshape(len(ids), -1).all(1)
    return good


def held_ids(memory, n=4000):
    """Return the ids of the transitions in a memory, from a sample."""
    batch = memory.sample(n)
    ids = batch.reward.numpy().astype(int)
    assert same(batch, ids).all()
    return set(ids.tolist())


# -- one process ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_full_memory_keeps_the_newest_transitions(shared):
    with Memory(SPACE, ACTION, capacity=30, n_envs=4, shared=shared) as memory:
        assert memory.capacity == 32
        for step in range(13):
            memory.add(**transitions(np.arange(4) + 4 * step))
            newest = list(range(4 * (step + 1)))[-32:]
            assert len(memory) == len(newest)
            assert memory.is_full == (len(newest) == 32)
            assert held_ids(memory) == set(newest)


def test_add_accepts_tensors_and_arrays():
    memory = Memory(SPACE, ACTION, capacity=8, n_envs=4)
    given = transitions(range(4))
    memory.add(**given)

    as_tensors = {
        name: {key: torch.tensor(each) for key, each in value.items()}
        if isinstance(value, dict)
        else torch.tensor(value)
        for name, value in transitions(range(4, 8)).items()
    }
    as_tensors["action"].requires_grad_()
    memory.add(**as_tensors)
    assert held_ids(memory) == set(range(8))
    batch = memory.sample(5)
    assert batch.observation["camera"].dtype == batch.truncated.dtype == torch.uint8
    assert batch.observation["joints"].dtype == batch.action.dtype == torch.float32
    assert batch.observation["joints"].shape == (5, 2, 2)
    assert batch.observation["touch"].shape == (5, 1)


def test_sampling_is_uniform_over_writers_with_different_counts():
    with Memory(SPACE, ACTION, capacity=40, n_envs=2, shared=True, writers=2) as memory:
        other = Memory.attach(memory.name, writer=1)
        for step in range(7):
            memory.add(**transitions([2 * step, 2 * step + 1]))
        for step in range(3):
            other.add(**transitions([100 + 2 * step, 101 + 2 * step]))
        other.close()
        batch = memory.sample(40_000)
        ids, counts = np.unique(batch.reward.numpy(), return_counts=True)
        assert sorted(ids) == [*range(14), *range(100, 106)]
        assert chisquare(counts).pvalue > 1e-3


def test_samples_only_depend_on_the_seed():
    def samples(seed, generator=None):
        memory = Memory(SPACE, ACTION, capacity=64, n_envs=8, seed=seed)
        for step in range(6):
            memory.add(**transitions(np.arange(8) + 8 * step))
        return [memory.sample(16, generator).reward.tolist() for _ in range(3)]

    assert samples(3) == samples(3) != samples(4)
    assert samples(0, torch.Generator().manual_seed(4)) == samples(4)


def test_sample_fills_the_given_batch_or_its_own():
    memory = Memory(SPACE, ACTION, capacity=64, n_envs=8)
    memory.add(**transitions(range(8)))
    mine = memory.batch(16)
    assert memory.sample(16, out=mine) is mine
    kept = mine.reward.clone()
    first = memory.sample(16)
    assert memory.sample(16) is first
    assert torch.equal(mine.reward, kept)
    with pytest.raises(sn.OptionError, match="a batch of 8 transitions, got 16"):
        memory.sample(8, out=mine)


def test_clear_deletes_all_transitions():
    memory = Memory(SPACE, ACTION, capacity=12, n_envs=4)
    for step in range(5):
        memory.add(**transitions(np.arange(4) + 4 * step))
    memory.clear()
    assert len(memory) == 0
    with pytest.raises(sn.OptionError, match="holds no transitions"):
        memory.sample(1)
    memory.add(**transitions(range(40, 44)))
    assert held_ids(memory) == {40, 41, 42, 43}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": np.zeros((4, 1), np.float32)}, r"reward must have shape \(4,\), got \(4, 1\)"),
        ({"action": np.zeros((3, 3), np.float32)}, r"action must have shape \(4, 3\), got \(3, 3\)"),
        ({"terminated": np.zeros(4, np.float32)}, "terminated is stored as uint8, which cannot hold float32"),
        ({"action": np.zeros((4, 3), np.complex64)}, "stored as float32, which cannot hold complex64"),
        ({"observation": {}}, r"observation must have the keys .*missing: .*'imu'"),
    ],
)
def test_refused_add_changes_nothing(change, message):
    memory = Memory(SPACE, ACTION, capacity=12, n_envs=4)
    memory.add(**transitions(range(4)))
    with pytest.raises(sn.OptionError, match=message):
        memory.add(**{**transitions(range(4, 8)), **change})
    assert len(memory) == 4
    assert held_ids(memory) == {0, 1, 2, 3}


def test_unknown_key_raises_with_a_suggestion():
    memory = Memory(SPACE, ACTION, capacity=12, n_envs=4)
    given = transitions(range(4))
    given["next_observation"]["camra"] = given["next_observation"].pop("camera")
    with pytest.raises(sn.OptionError, match=r"next_observation must have .*did you mean 'camera'"):
        memory.add(**given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 3}, r"capacity must be >= writers \* n_envs = 4"),
        ({"n_envs": 0}, "n_envs must be an integer >= 1"),
        ({"writers": 2, "writer": 2}, r"writer must be in \[0, 2\) or None, got 2"),
        ({"capacity": 10**13, "shared": True}, "lower capacity"),
        ({"device": "meta"}, "device must be 'cpu' or 'cuda'"),
        ({"observation_space": ACTION}, "a Dict of Boxes"),
        ({"observation_space": spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(3)})})}, r"and a\.b is Discrete"),
        ({"action_space": spaces.Discrete(3)}, "action_space must be a Box"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(sn.OptionError, match=message):
        Memory(**{"observation_space": SPACE, "action_space": ACTION, "capacity": 8, "n_envs": 4, **options})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_missing_device_raises():
    with pytest.raises(sn.DeviceError, match="no CUDA device"):
        Memory(SPACE, ACTION, 8, 4, device="cuda")


def test_add_and_sample_do_not_allocate():
    memory = Memory(SPACE, ACTION, capacity=8192, n_envs=512)
    given = transitions(range(512))
    buffer = VectorizedClusterBuffer(SPACE, ACTION, ClusterOptions(capacity=4096, clusters=4, warmup=600))
    for turn in range(4):
        buffer.add(**transitions(np.arange(512) + 512 * turn))

    def work():
        memory.add(**given)
        memory.sample(1024)
        buffer.add(**given)
        buffer.sample(1024)

    for _ in range(20):
        work()
    tracemalloc.start()
    work()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    for _ in range(20):
        work()
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    smallest = 512 * 4  # bytes of one number per env: less means that no field was copied
    assert now - before < smallest
    assert peak - before < 4 * smallest
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in range(5):
            memory.add(**given)
            memory.sample(1024)
    allocated = sum(max(event.self_cpu_memory_usage, 0) for event in profile.key_averages())
    assert allocated < smallest


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_adds", [3, 8, 13])
def test_loaded_memory_continues_like_the_saved_one(tmp_path, n_adds):
    memory = Memory(SPACE, ACTION, capacity=32, n_envs=4, seed=5)
    for step in range(n_adds):
        memory.add(**transitions(np.arange(4) + 4 * step))
    memory.sample(7)
    memory.save(tmp_path / "a" / "memory")
    loaded = Memory.load(tmp_path / "a" / "memory")
    for step in range(n_adds, n_adds + 7):
        assert len(loaded) == len(memory)
        assert torch.equal(loaded.sample(50).reward, memory.sample(50).reward)
        for each in (memory, loaded):
            each.add(**transitions(np.arange(4) + 4 * step))
    assert held_ids(loaded) == held_ids(memory)
    assert b"pickle" not in b"".join(file.read_bytes() for file in (tmp_path / "a" / "memory").iterdir())


def test_save_keeps_the_rings_and_only_replaces_older_saves(tmp_path):
    with Memory(SPACE, ACTION, capacity=16, n_envs=2, shared=True, writers=2) as memory:
        with Memory.attach(memory.name, writer=1) as other:
            other.add(**transitions([50, 51]))
        for step in range(6):
            memory.add(**transitions([2 * step, 2 * step + 1]))
            memory.save(tmp_path / "memory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory"]
    loaded = Memory.load(tmp_path / "memory")
    assert held_ids(loaded) == {50, 51, *range(4, 12)}
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.txt").write_text("other contents")
    with pytest.raises(sn.DatasetError, match="something other than a saved memory"):
        loaded.save(tmp_path / "else")
    assert (tmp_path / "else" / "thesis.txt").exists()


def test_save_removes_what_killed_processes_left_and_follows_no_link(tmp_path):
    memory = Memory(SPACE, ACTION, capacity=8, n_envs=4)
    memory.add(**transitions(range(4)))
    memory.save(tmp_path / "real")
    before = (tmp_path / "real" / "memory.json").stat().st_ino
    (tmp_path / "memory").symlink_to(tmp_path / "real")
    (tmp_path / ".memory-0123456789abcdef").mkdir()
    memory.save(tmp_path / "memory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory", "real"]
    assert not (tmp_path / "memory").is_symlink()
    assert (tmp_path / "real" / "memory.json").stat().st_ino == before


def test_damaged_saves_are_refused(tmp_path):
    with pytest.raises(sn.DatasetError, match=r"memory\.json is missing"):
        Memory.load(tmp_path)
    memory = Memory(SPACE, ACTION, capacity=8, n_envs=4)
    memory.add(**transitions(range(4)))
    folder = tmp_path / "memory"
    memory.save(folder)
    header = json.loads((folder / "memory.json").read_text())
    reward = folder / header["fields"]["reward"]
    whole = reward.read_bytes()
    reward.write_bytes(whole[:-4])
    with pytest.raises(sn.DatasetError, match="damaged"):
        Memory.load(folder)
    np.save(reward, np.array([{}] * 4, object), allow_pickle=True)
    with pytest.raises(sn.DatasetError, match="damaged"):
        Memory.load(folder)
    reward.write_bytes(whole)
    assert held_ids(Memory.load(folder)) == {0, 1, 2, 3}


# -- several processes ------------------------------------------------------------------------------------------------


def shm(name):
    return Path("/dev/shm") / name.lstrip("/")


def test_shared_memory_is_removed_when_its_creator_closes_it():
    memory = Memory(SPACE, ACTION, capacity=8, n_envs=4, shared=True)
    reader = Memory.attach(memory.name)
    path = shm(memory.name)
    assert path.exists()
    reader.close()
    assert path.exists()
    memory.close()
    memory.close()
    assert not path.exists()
    with pytest.raises(sn.OptionError, match="closed"):
        memory.sample(1)
    with pytest.raises(sn.errors.NameNotFoundError, match="there is no shared memory"):
        Memory.attach(memory.name)
    forgotten = Memory(SPACE, ACTION, capacity=8, n_envs=4, shared=True)
    path = shm(forgotten.name)
    assert path.exists()
    del forgotten
    assert not path.exists()


def test_each_ring_has_one_writer():
    with Memory(SPACE, ACTION, capacity=16, n_envs=4, shared=True, writers=2) as memory:
        with pytest.raises(sn.OptionError, match="use another ring for each writer"):
            Memory.attach(memory.name, writer=0)
        with pytest.raises(sn.OptionError, match=r"writer must be in \[0, 2\)"):
            Memory.attach(memory.name, writer=2)
        Memory.attach(memory.name, writer=1).close()
        with Memory.attach(memory.name, writer=1) as again, Memory.attach(memory.name) as reader:
            again.add(**transitions(range(4)))
            assert held_ids(reader) == {0, 1, 2, 3}
            with pytest.raises(sn.OptionError, match="open for reading only"):
                reader.add(**transitions(range(4)))
        with pytest.raises(sn.OptionError, match=r"call Memory\.attach in the other process"):
            pickle.dumps(memory)
        memory._process += 1  # as a forked process sees it
        with pytest.raises(sn.OptionError, match="from which this one was forked"):
            memory.add(**transitions(range(4)))


def test_interrupted_write_is_never_read():
    with Memory(SPACE, ACTION, capacity=16, n_envs=4, shared=True) as memory:
        for step in range(6):
            memory.add(**transitions(np.arange(4) + 4 * step))
        assert held_ids(memory) == set(range(8, 24))
        kernels.open_slot(memory._rings.sequences, 2, 6)  # the state after a writer died in its seventh write
        assert held_ids(memory) == set(range(12, 24))
        memory.add(**transitions(range(24, 28)))
        assert held_ids(memory) == set(range(12, 28))


@pytest.mark.slow
def test_another_process_attaches_by_name_and_does_not_remove_it():
    code = (
        "import sys, numpy as np\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from sensorium.entities import Memory\n"
        "from test_memory import transitions\n"
        "memory = Memory.attach(sys.argv[1], writer=0)\n"
        "memory.add(**transitions(range(4)))\n"
    )
    with Memory(SPACE, ACTION, capacity=8, n_envs=4, shared=True, writer=None) as memory:
        command = [sys.executable, "-c", code, memory.name, str(Path(__file__).parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert shm(memory.name).exists()
        assert held_ids(memory) == {0, 1, 2, 3}


def test_shared_memory_of_a_killed_creator_is_removed():
    code = (
        "import sys, time\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from sensorium.entities import Memory\n"
        "from test_memory import SPACE, ACTION\n"
        "memory = Memory(SPACE, ACTION, 8, 4, shared=True)\n"
        "print(memory.name, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    creator = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    path = shm(creator.stdout.readline().strip())
    assert path.exists()
    creator.send_signal(signal.SIGKILL)
    creator.communicate()
    deadline = time.monotonic() + 10
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not path.exists()


SMALL_SPACE = spaces.Dict({"imu": spaces.Box(-np.inf, np.inf, (6,)), "camera": spaces.Box(0, 255, (4, 5, 3), np.uint8)})


def write_until(name, writer, stop):
    """Write as fast as possible until ``stop`` is set, with ids that depend on the writer."""
    memory = Memory.attach(name, writer=writer)
    prepared = [transitions(np.arange(256) + 256 * turn + writer, SMALL_SPACE) for turn in range(200)]
    turn = 0
    while not stop.is_set():
        for _ in range(50):
            memory.add(**prepared[turn % 200])
            turn += 1
    memory.close()


@pytest.fixture
def one_thread():
    """Limit torch to one thread: several would wait for each other while other processes use the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_readers_never_get_torn_transitions():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sensorium.entities", "test_memory"])  # import once, not in each writer
    stop = context.Event()
    with Memory(SMALL_SPACE, ACTION, 3 * 4 * 256, 256, shared=True, writers=3, writer=None) as memory:
        writers = [context.Process(target=write_until, args=(memory.name, writer, stop)) for writer in range(3)]
        try:
            for process in writers:
                process.start()
            while not memory.is_full:
                time.sleep(0.01)
            buffer = VectorizedClusterBuffer(SMALL_SPACE, ACTION, ClusterOptions(capacity=2048, clusters=1))
            rows = torch.empty(1024, dtype=torch.int64)
            plain = memory.batch(1024)
            n_read = n_torn = n_torn_unguarded = n_gathered = 0
            deadline = time.monotonic() + 4.0
            while time.monotonic() < deadline:
                batch = memory.sample(1024)
                n_torn += int((~same(batch, batch.reward.numpy())).sum())
                n_read += 1024
                rows.random_(0, memory.capacity)
                for block, tensor in zip(memory._rings.flat, plain.tensors, strict=True):
                    torch.index_select(block, 0, rows, out=tensor)
                n_torn_unguarded += int((~same(plain, plain.reward.numpy())).sum())
                n_gathered += buffer.gather(memory)
                batch = buffer.sample(1024)
                n_torn += int((~same(batch, batch.reward.numpy())).sum())
            stop.set()
            for process in writers:
                process.join(20)
            assert [process.exitcode for process in writers] == [0, 0, 0]
            n_gathered += buffer.gather(memory)
            assert n_gathered + buffer.missed == 256 * sum(memory.writes(writer) for writer in range(3))
        finally:
            for process in writers:
                if process.is_alive():
                    process.kill()
    assert n_torn == 0
    assert n_torn_unguarded > 0, "the writers never interfered, so the test proves nothing"
    assert n_read > 20_000


# -- clusters ---------------------------------------------------------------------------------------------------------

PLANE = spaces.Dict({"place": spaces.Box(-np.inf, np.inf, (2,))})
THRUST = spaces.Box(-1, 1, (1,))


def at(points, ids):
    """Return transitions at points of a plane, with their ids as rewards."""
    points = np.asarray(points, np.float32)
    n = len(points)
    return {
        "observation": {"place": points},
        "action": np.zeros((n, 1), np.float32),
        "reward": np.asarray(ids, np.float32),
        "next_observation": {"place": points + 1},
        "terminated": np.zeros(n, bool),
        "truncated": np.zeros(n, bool),
    }


def around(rng, centre, n):
    return rng.normal(centre, 0.1, (n, 2))


def contents(buffer):
    """Return the ids in each ring, oldest first."""
    rewards = buffer._arrays[buffer.layout.fields.index(next(f for f in buffer.layout.fields if f.name == "reward"))]
    rows = [ring * buffer._stride + np.arange(n) for ring, n in enumerate(buffer.counts)]
    return [rewards[each][np.argsort(buffer._serials[each])].astype(int).tolist() for each in rows]


@pytest.mark.parametrize("clusters", [1, 2])
def test_common_states_do_not_overwrite_rare_states(clusters):
    rng = np.random.default_rng(0)
    buffer = VectorizedClusterBuffer(PLANE, THRUST, ClusterOptions(capacity=400, clusters=clusters, warmup=200))
    buffer.add(**at(around(rng, (0, 0), 190), range(190)))
    buffer.add(**at(around(rng, (9, 9), 10), range(1000, 1010)))
    for turn in range(30):
        buffer.add(**at(around(rng, (0, 0), 100), np.arange(100) + 2000 + 100 * turn))
    if clusters == 1:
        assert contents(buffer) == [list(range(4600, 5000))]
    else:
        assert sorted(contents(buffer)) == [list(range(1000, 1010)), list(range(4800, 5000))]
        buffer.add(**at(around(rng, (9, 9), 250), range(6000, 6250)))  # more than its ring holds
        assert sorted(contents(buffer)) == [list(range(4800, 5000)), list(range(6050, 6250))]
    assert len(buffer) == 400


def test_transitions_go_to_the_nearest_centroid():
    rng = np.random.default_rng(1)
    mixing = rng.normal(size=(7, 7)) * np.array([5, 3, 1, 1, 0.5, 0.1, 0.0])
    space = spaces.Dict({"a": spaces.Box(-9, 9, (2, 2)), "b": spaces.Box(-9, 9, (3,)), "c": PLANE["place"]})
    options = ClusterOptions(capacity=8000, clusters=5, components=3, warmup=1000, keys=("a", "b"))
    buffer = VectorizedClusterBuffer(space, THRUST, options)

    def add(n, first):
        x = (rng.normal(size=(n, 7)) @ mixing.T + 100.0).astype(np.float32)
        observation = {"a": x[:, :4].reshape(n, 2, 2), "b": x[:, 4:], "c": rng.normal(size=(n, 2))}
        plain = at(np.zeros((n, 2)), np.arange(n) + first)
        buffer.add(**{**plain, "observation": observation, "next_observation": observation})
        return x.astype(np.float64)

    warm, later = add(1000, 0), add(500, 1000)
    # the same computation with plain NumPy
    standard = (warm - warm.mean(0)) / warm.std(0)
    _, vectors = np.linalg.eigh(np.cov(standard.T))
    top = vectors[:, ::-1][:, :3]
    fitted = buffer.clusters
    assert np.allclose(np.abs(top.T @ fitted.components.numpy()), np.eye(3), atol=1e-4)
    projected = ((np.concatenate([warm, later]) - warm.mean(0)) / warm.std(0)) @ fitted.components.numpy()
    distances = np.linalg.norm(projected[:, None] - fitted.centroids.numpy(), axis=2)
    nearest = distances.argmin(1)
    clear = np.diff(np.sort(distances, 1)[:, :2], axis=1)[:, 0] > 1e-4
    assert clear.mean() > 0.99
    routed = np.empty(1500, int)
    for ring, ids in enumerate(contents(buffer)):
        routed[ids] = ring
    assert (routed == nearest)[clear].all()
    # centroids are the means of their observations
    means = np.array([projected[:1000][nearest[:1000] == cluster].mean(0) for cluster in range(5)])
    assert np.allclose(means, fitted.centroids.numpy(), atol=1e-3)


def test_k_means_finds_separate_groups_for_every_seed():
    rng = np.random.default_rng(2)
    centres = np.array([(x, y) for x in (0, 10, 20) for y in (0, 10)], float)
    points = torch.from_numpy(np.concatenate([around(rng, centre, 40) for centre in centres]))
    for seed in range(20):
        found = k_means(points, 6, torch.Generator().manual_seed(seed)).numpy()
        nearest = np.linalg.norm(found[:, None] - centres, axis=2).min(0)
        assert (nearest < 0.1).sum() >= 4  # k-means++ may still put two into one group
    assert (nearest < 0.1).all()
    with pytest.raises(sn.OptionError, match="only 2 different"):
        k_means(torch.tensor([[0.0], [1.0], [0.0]]), 3, torch.Generator())


def three_groups(balance, seed=0):
    rng = np.random.default_rng(3)
    options = ClusterOptions(capacity=9000, clusters=3, warmup=1000, balance=balance)
    buffer = VectorizedClusterBuffer(PLANE, THRUST, options, seed=seed)
    points = np.concatenate([around(rng, (0, 0), 900), around(rng, (9, 0), 80), around(rng, (0, 9), 20)])
    order = rng.permutation(1000)
    buffer.add(**at(points[order], order))
    assert sorted(buffer.counts) == [20, 80, 900]
    return buffer


@pytest.mark.parametrize("balance", [0.0, 0.3, 1.0])
def test_balance_sets_the_probabilities_of_clusters(balance):
    buffer = three_groups(balance)
    n = 60_000
    ids = buffer.sample(n).reward.numpy().astype(int)
    group = np.searchsorted([900, 980], ids, side="right")
    sizes = np.array([900, 80, 20])
    chances = (1 - balance) * sizes / 1000 + balance / 3
    assert chisquare(np.bincount(group), n * chances).pvalue > 1e-3
    within = np.bincount(ids[group == 0], minlength=900)
    assert chisquare(within).pvalue > 1e-3  # uniform within a group
    buffer.balance = 1.0
    group = np.searchsorted([900, 980], buffer.sample(n).reward.numpy(), side="right")
    assert chisquare(np.bincount(group)).pvalue > 1e-3


def test_empty_clusters_are_not_drawn():
    buffer = three_groups(1.0)
    empty = int(np.argmin(buffer.counts))
    buffer._counts[empty] = 0
    ids = buffer.sample(30_000).reward.numpy()
    assert ids.max() < 980
    assert chisquare(np.bincount(np.searchsorted([900], ids, side="right"))).pvalue > 1e-3


def test_same_seed_gives_the_same_clusters_and_batches():
    def batches(seed):
        buffer = three_groups(0.5, seed)
        return buffer.clusters.centroids.tolist(), [buffer.sample(64).reward.tolist() for _ in range(3)]

    assert batches(1) == batches(1)
    assert batches(1)[1] != batches(2)[1]


def test_new_fit_sorts_the_transitions_by_age():
    rng = np.random.default_rng(4)
    buffer = VectorizedClusterBuffer(PLANE, THRUST, ClusterOptions(capacity=40, clusters=2, warmup=20))
    buffer.add(**at(np.concatenate([around(rng, (0, 0), 10), around(rng, (5, 5), 10)]), range(20)))
    first = buffer.clusters
    for turn in range(10):  # two other groups, both nearest to the second centroid
        buffer.add(**at(around(rng, (50, 50) if turn % 2 else (400, 400), 4), np.arange(4) + 100 + 4 * turn))
    assert sorted(map(len, contents(buffer))) == [10, 20]
    buffer.fit()
    assert buffer.clusters is not first
    far = [100 + 4 * turn + place for turn in (6, 8) for place in range(4)]
    near = [100 + 4 * turn + place for turn in (5, 7, 9) for place in range(4)]
    # the ring of the near group is full: its two oldest are dropped
    assert sorted(contents(buffer)) == [[*range(2, 10), *near], far]
    with pytest.raises(sn.OptionError, match="nothing is fitted"):
        VectorizedClusterBuffer(PLANE, THRUST, ClusterOptions(capacity=40, clusters=1)).fit()


def test_fit_is_delayed_with_too_few_different_states():
    buffer = VectorizedClusterBuffer(PLANE, THRUST, ClusterOptions(capacity=400, clusters=4, warmup=10))
    buffer.add(**at(np.zeros((12, 2)), range(12)))
    assert buffer.clusters is None
    assert len(buffer) == 12
    with pytest.raises(sn.OptionError, match="only 1 different"):
        buffer.fit()
    broken = np.full((3, 2), np.nan)
    buffer.add(**at(np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), broken]), range(23)))
    assert buffer.clusters is not None
    assert len(buffer) == 35
    assert bool(torch.isfinite(buffer.clusters.centroids).all())


def test_fit_is_tried_again_with_more_transitions():
    buffer = VectorizedClusterBuffer(PLANE, THRUST, ClusterOptions(capacity=100, clusters=4, warmup=60))
    buffer.add(**at(np.zeros((60, 2)), range(60)))
    assert buffer.clusters is None
    rng = np.random.default_rng(0)
    for start in range(0, 200, 20):
        buffer.add(**at(rng.normal(size=(20, 2)), range(start, start + 20)))
    assert buffer.clusters is not None


def test_gather_copies_each_transition_once_and_counts_lost_ones():
    with Memory(SPACE, ACTION, capacity=32, n_envs=4, shared=True, writers=2) as memory:
        other = Memory.attach(memory.name, writer=1)
        buffer = VectorizedClusterBuffer(SPACE, ACTION, ClusterOptions(capacity=100, clusters=1))
        assert buffer.gather(memory) == 0
        for step in range(3):
            memory.add(**transitions(np.arange(4) + 4 * step))
            other.add(**transitions(np.arange(4) + 4 * step + 100))
        assert buffer.gather(memory) == 24
        assert buffer.gather(memory) == 0
        assert contents(buffer) == [[*range(12), *range(100, 112)]]
        for step in range(3, 9):  # six writes into a ring of four
            memory.add(**transitions(np.arange(4) + 4 * step))
        assert buffer.gather(memory) == 16
        assert buffer.missed == 8
        memory.clear()
        other.add(**transitions(range(112, 116)))
        memory.add(**transitions(range(36, 40)))
        assert buffer.gather(memory) == 8
        assert buffer.missed == 8
        assert contents(buffer) == [[*range(12), *range(100, 112), *range(20, 40), *range(112, 116)]]
        batch = buffer.sample(500)
        assert same(batch, batch.reward.numpy()).all()
        other.close()
    with pytest.raises(sn.OptionError, match="fields"):
        buffer.gather(Memory(PLANE, THRUST, 8, 4))


def nested(flat, levels):
    """Return a flat mapping with dotted names as a nested one; ``levels`` makes a space or a dict of each level."""
    inner = {}
    for name, value in flat.items():
        group, _, part = name.partition(".")
        inner.setdefault(group, {})[part] = value
    return levels({group: levels(parts) if "" not in parts else parts[""] for group, parts in inner.items()})


@pytest.mark.parametrize("kind", ["memory", "clusters"])
def test_nested_spaces_equal_flat_spaces_with_dotted_names(kind):
    flat = {"imu.acc": spaces.Box(-9, 9, (3,)), "imu.gyro": spaces.Box(-9, 9, (2,)), "place": PLANE["place"]}
    options = ClusterOptions(capacity=120, clusters=3, warmup=60, keys=("imu",))
    batches = []
    for is_nested in (False, True):
        shape = (
            (lambda values, levels: nested(values, levels)) if is_nested else (lambda values, levels: levels(values))
        )
        rng = np.random.default_rng(5)
        space = shape(flat, spaces.Dict)
        made = Memory(space, THRUST, 120, 20) if kind == "memory" else VectorizedClusterBuffer(space, THRUST, options)
        for turn in range(5):
            before, after = ({key: rng.normal(size=(20, *box.shape)) for key, box in flat.items()} for _ in range(2))
            plain = at(np.zeros((20, 2)), np.arange(20) + 20 * turn)
            made.add(**{**plain, "observation": shape(before, dict), "next_observation": shape(after, dict)})
        batches.append(made.sample(64))
    for one, other in zip(batches[0].tensors, batches[1].tensors, strict=True):
        assert torch.equal(one, other)
    assert set(batches[1].observation) == set(flat)


@pytest.mark.parametrize("n_added", [15, 55, 400])
def test_loaded_buffer_continues_like_the_saved_one(tmp_path, n_added):
    """Before and after the fit, and with full rings."""
    options = ClusterOptions(capacity=100, clusters=3, warmup=40, components=2)
    rng = np.random.default_rng(6)
    points = rng.normal(size=(900, 2)) * [1.0, 3.0] + rng.integers(0, 2, (900, 1)) * 8.0
    saved = VectorizedClusterBuffer(PLANE, THRUST, options, seed=3)
    for start in range(0, n_added, 5):
        saved.add(**at(points[start : start + 5], np.arange(start, start + 5)))
    saved.sample(7)
    saved.balance = 0.25
    saved.save(tmp_path / "a" / "memory")
    saved.save(tmp_path / "a" / "memory")  # replaces the older save
    loaded = VectorizedClusterBuffer.load(tmp_path / "a" / "memory")
    assert (loaded.options, loaded.balance, loaded.capacity) == (options, 0.25, saved.capacity)
    assert (loaded.clusters is None) == (n_added < 40)
    for start in range(n_added, n_added + 200, 5):
        for buffer in (saved, loaded):
            buffer.add(**at(points[start : start + 5], np.arange(start, start + 5)))
        assert torch.equal(saved.sample(16).reward, loaded.sample(16).reward)
    assert contents(saved) == contents(loaded)
    for buffer in (saved, loaded):
        buffer.fit()
    assert contents(saved) == contents(loaded)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["memory"]


def test_damaged_buffers_are_refused(tmp_path):
    buffer = three_groups(0.5)
    with pytest.raises(sn.errors.DatasetError, match="holds no saved cluster buffer"):
        VectorizedClusterBuffer.load(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(sn.errors.DatasetError, match="something other than a saved memory"):
        buffer.save(tmp_path / "other")
    folder = tmp_path / "memory"
    changes = [
        ("cluster_buffer.json", lambda text: text.replace('"format": 1', '"format": 2'), "has format 2"),
        ("cluster_buffer.json", lambda text: text.replace('"fitted": true', '"fitted": false'), "must have 1 numbers"),
        ("cluster_buffer.json", lambda text: text.replace('"clusters": 3', '"clusters": 4'), "must have 4 numbers"),
        (
            "cluster_buffer.json",
            lambda text: text.replace('"capacity": 9000', '"capacity": 1000'),
            "contradict|must be",
        ),
        ("cluster_buffer.json", lambda text: text[:200], "damaged"),
    ]
    for file, change, message in changes:
        buffer.save(folder)
        (folder / file).write_text(change((folder / file).read_text()))
        with pytest.raises(sn.errors.DatasetError, match=message):
            VectorizedClusterBuffer.load(folder)
    for file in ("serials.npy", "cluster_mean.npy", "field_00.npy", "generator.npy"):
        buffer.save(folder)
        np.save(folder / file, np.zeros((3, 3), np.float32))
        with pytest.raises(sn.errors.DatasetError, match="damaged cluster buffer"):
            VectorizedClusterBuffer.load(folder)
    buffer.save(folder)
    assert contents(VectorizedClusterBuffer.load(folder)) == contents(buffer)


def _write_shared(name, writer, n):
    """Write n transitions of each of 4 envs, from another process."""
    with Memory.attach(name, writer=writer) as memory:
        for step in range(n):
            memory.add(**transitions(np.arange(4) + 4 * step + 1000 * writer))


@pytest.mark.slow
def test_several_processes_write_to_a_buffer():
    buffer = VectorizedClusterBuffer(SPACE, ACTION, ClusterOptions(capacity=1200, clusters=3, warmup=100))
    shared = buffer.share(writers=2, n_envs=4)
    with pytest.raises(sn.OptionError, match="has a shared memory already"):
        buffer.share(writers=2, n_envs=4)
    with pytest.raises(sn.OptionError, match="holds no transitions"):
        buffer.sample(4)
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write_shared, args=(shared.name, writer, 50)) for writer in range(2)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(120)
        assert process.exitcode == 0
    batch = buffer.sample(2000)  # gathers first
    assert same(batch, batch.reward.numpy().astype(int)).all()
    assert buffer.clusters is not None
    assert sorted(each for ring in contents(buffer) for each in ring) == [*range(200), *range(1000, 1200)]
    assert buffer.missed == 0
    buffer.close()
    with pytest.raises(sn.errors.NameNotFoundError):
        Memory.attach(shared.name)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"capacity": 3, "clusters": 4}, sn.OptionError, "capacity must be >= clusters"),
        ({"warmup": 200}, sn.OptionError, "warmup must be between clusters"),
        ({"balance": 1.5}, sn.OptionError, "balance"),
        ({"keys": ("plaice",)}, sn.errors.NameNotFoundError, "did you mean 'place'"),
        ({"keys": ()}, sn.OptionError, "name the observations"),
        ({"cluster": 4}, sn.OptionError, "did you mean 'clusters'"),
    ],
)
def test_invalid_cluster_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        VectorizedClusterBuffer(
            PLANE, THRUST, ClusterOptions(**{"capacity": 100, "clusters": 4, "warmup": 50, **options})
        )


@pytest.mark.gpu
def test_gpu_batches_equal_cpu_batches_and_are_valid_until_the_next():
    buffers = []
    for device in ("cpu", "cuda"):
        options = ClusterOptions(capacity=4000, clusters=4, warmup=500)
        buffers.append(VectorizedClusterBuffer(SPACE, ACTION, options, device=device))
        for turn in range(4):
            buffers[-1].add(**transitions(np.arange(500) + 500 * turn))
    work = torch.randn(2000, 2000, device="cuda")
    sums, wanted = [], []
    for _ in range(200):  # the GPU lags behind, so a batch that is overwritten too early changes the sum
        wanted.append(buffers[0].sample(256).reward.double().sum())
        batch = buffers[1].sample(256)
        assert batch.observation["camera"].device.type == "cuda"
        for _ in range(3):
            work = torch.tanh(work @ work)
        sums.append(batch.reward.double().sum() + 0.0 * work[0, 0].double())
    assert torch.equal(torch.stack(sums).cpu(), torch.stack(wanted))


@pytest.mark.gpu
def test_memory_on_a_gpu():
    memory = Memory(SPACE, ACTION, capacity=30, n_envs=4, device="cuda")
    for step in range(13):
        memory.add(**transitions(np.arange(4) + 4 * step))
    batch = memory.sample(4000)
    assert batch.reward.device.type == "cuda"
    assert set(batch.reward.tolist()) == set(range(20, 52))
    cuda_free = torch.cuda.memory_stats()["allocation.all.allocated"]
    memory.sample(4000)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] - cuda_free <= 2
    with pytest.raises(sn.OptionError, match="use device='cpu'"):
        Memory(SPACE, ACTION, 8, 4, device="cuda", shared=True)
