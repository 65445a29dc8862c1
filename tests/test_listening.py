"""What listens where: pages refuse other sites, and a local cluster listens on this machine only."""

import asyncio

import pytest

import sensorium as sn


def small_scene():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
    scene.build()
    return scene


@pytest.mark.parametrize("host", [None, "", 5])
def test_hosts_that_mean_all_interfaces_by_accident_are_refused(host):
    pytest.importorskip("viser")
    with pytest.raises(sn.OptionError, match="host must be an address"):
        small_scene().view(host=host)


@pytest.mark.parametrize(
    ("origin", "host", "loopback", "foreign"),
    [
        (None, "127.0.0.1:8080", True, False),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True, False),
        ("http://localhost:9000", "localhost:9000", True, False),  # through ssh -L 9000:localhost:8080
        ("http://[::1]:8080", "[::1]:8080", True, False),
        ("http://evil.example", "127.0.0.1:8080", True, True),
        ("http://127.0.0.1:3000", "127.0.0.1:8080", True, True),
        ("http://evil.example:8080", "evil.example:8080", True, True),  # its name points to this machine
        ("null", "127.0.0.1:8080", True, True),
        ("http://robot.lan:8080", "robot.lan:8080", False, False),
        ("http://evil.example", "robot.lan:8080", False, True),
    ],
)
def test_foreign_origins_are_recognised(origin, host, loopback, foreign):
    pytest.importorskip("viser")
    from sensorium.viewer.page import is_foreign

    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    assert is_foreign(headers, loopback) == foreign


def test_the_page_refuses_connections_of_other_sites():
    pytest.importorskip("viser")
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    scene = small_scene()
    viewer = scene.view()
    address = viewer.address.replace("http", "ws")

    async def status(origin):
        try:
            async with connect(address, origin=origin, subprotocols=["viser-v1"]):
                return 101
        except InvalidStatus as error:
            return error.response.status_code

    try:
        assert asyncio.run(status("http://evil.example")) == 403
        assert asyncio.run(status(viewer.address)) == 101
        assert asyncio.run(status(None)) == 101
    finally:
        scene.close()


@pytest.mark.slow
def test_a_local_cluster_listens_on_this_machine_only(tmp_path):
    pytest.importorskip("ray")
    import os

    from sensorium.generation import GenerateOptions
    from sensorium.generation.cluster import RayRunner

    options = GenerateOptions(task="balance", policy="random", episodes=1, envs=1)
    before = dict(os.environ)
    runner = RayRunner(options, tmp_path, "local", 1)
    try:
        import psutil  # Ray brings it

        family = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        listening = [
            each.laddr.ip for each in psutil.net_connections("tcp") if each.status == "LISTEN" and each.pid in family
        ]
        assert len(listening) >= 3
        assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    finally:
        runner.close()
    assert os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER") == before.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")


def test_replays_store_no_paths_and_all_files_have_the_same_mode(tmp_path):
    with sn.recording.Recorder(small_scene(), tmp_path / "a") as recorder:
        recorder.record(3)
    sn.recording.replay(tmp_path / "a", tmp_path / "b")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if str(tmp_path).encode() in path.read_bytes()]
    assert len({path.stat().st_mode for path in files}) == 1
