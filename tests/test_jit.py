"""Compiled kernels: the cache on disk, compilation in several processes, and messages to the user."""

import enum
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import typeof, types
from numba.extending import intrinsic

import sensorium
from sensorium import _system, compiling, jit

PACKAGE = Path(sensorium.__file__).parent
DRAW = """
import numpy as np
from sensorium.robots.noise_kernels import add_noise
x = np.zeros((1, 3))
add_noise(x, np.array([[1, 2], [3, 4], [5, 6]], np.uint32), np.array([0]), np.array([7]), np.ones(3))
print(*x[0])
"""
BARE = """
import sys, types
for name in ("sensorium", "sensorium.pipeline", "sensorium.robots"):
    package = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
    sys.modules[name] = package
import sensorium.compiling
"""  # the package without its __init__ files, which import torch


@pytest.fixture
def copied(tmp_path):
    """A copy of the package whose kernels can be edited, and a function that computes random numbers with them."""
    shutil.copytree(PACKAGE, tmp_path / "sensorium", ignore=shutil.ignore_patterns("__pycache__"))

    def draw(**environment):
        words = [sys.executable, "-c", BARE + DRAW, str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), "compiling" in done.stderr

    draw.folder = tmp_path
    return draw


def edit(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@pytest.mark.slow
def test_edits_in_any_file_invalidate_cached_kernels(copied):
    """The kernel is in one file, a function that it calls in a second, and a constant of that function in a third."""
    pipeline = copied.folder / "sensorium" / "pipeline"
    random = pipeline / "kernels" / "random.py"
    first, compiled = copied()
    assert compiled
    assert copied() == (first, False)
    edit(random, "return _U(x0 + k2), _U(x1 + k0 + _U(5))", "return _U(x0 + k2), _U(x1 + k0 + _U(6))")
    second, compiled = copied()
    assert compiled
    assert second != first
    edit(pipeline / "formula.py", "PARITY = 0x1BD11BDA", "PARITY = 0x1BD11BDB")
    third, compiled = copied()
    assert compiled
    assert third not in (first, second)
    assert copied(NUMBA_CACHE_DIR=str(copied.folder / "other")) == (third, True)  # the same as without a cache
    edit(pipeline / "formula.py", "PARITY = 0x1BD11BDB", "PARITY = 0x1BD11BDA")
    edit(random, "_U(x1 + k0 + _U(6))", "_U(x1 + k0 + _U(5))")
    assert copied() == (first, False)  # the old code has its old file name


@pytest.mark.slow
def test_kernels_are_cached_in_the_user_folder_if_the_package_is_read_only(copied):
    robots = copied.folder / "sensorium" / "robots"
    (robots / "__pycache__").write_text("in the way")  # a file, so that even root cannot create a folder here
    user = copied.folder / "user"
    first, compiled = copied(XDG_CACHE_HOME=str(user))
    assert compiled
    assert [file.suffix for file in (user / "sensorium").glob("robots-*/*")] == [".nbk"]
    assert copied(XDG_CACHE_HOME=str(user)) == (first, False)
    assert copied(XDG_CACHE_HOME="/dev/null") == (first, True)  # no folder can be written: compiled in every process


@pytest.mark.slow
def test_damaged_files_are_compiled_again(copied):
    first, _ = copied()
    (file,) = (copied.folder / "sensorium" / "robots" / "__pycache__").glob("*.nbk")
    whole = file.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        file.write_bytes(damaged)
        assert copied() == (first, True)
        assert copied() == (first, False)


def test_fingerprint_depends_on_code_and_constants():
    def made(text, **values):
        space = {"helper": jit.helper, "__name__": "made", **values}
        exec(text, space)
        return jit.fingerprint(space["f"])

    text = "@helper\ndef g(x): return x + A\ndef f(x): return g(x) * 2"
    base = made(text, A=1)
    assert made(text, A=1) == base
    assert made("\n\n" + text, A=1) == base  # line numbers do not count
    assert made(text, A=1.0) != base
    assert made(text, A=2) != base
    assert made(text.replace("x + A", "x - A"), A=1) != base
    assert made(text.replace("* 2", "* 3"), A=1) != base
    arrays = [np.array(value, dtype) for value in (1, 2) for dtype in (np.float32, np.float64)]
    assert len({made(text, A=value) for value in arrays}) == 4
    with pytest.raises(TypeError, match="reads a global of type object"):
        made(text, A=object())


def test_fingerprint_depends_on_keywords_enums_modules_and_intrinsics():
    def made(text, **values):
        space = {"helper": jit.helper, "intrinsic": intrinsic, "types": types, "__name__": "made", **values}
        exec(text, space)
        return jit.fingerprint(space["f"])

    def module(value):
        outer, inner = ModuleType("outer"), ModuleType("inner")
        outer.inner, inner.A = inner, value
        return outer

    assert made("def f(x, *, y=1): return x + y") != made("def f(x, *, y=2): return x + y")
    kinds = [enum.IntEnum("Kind", {"A": value}) for value in (1, 2)]
    assert made("def f(x): return x + Kind.A", Kind=kinds[0]) != made("def f(x): return x + Kind.A", Kind=kinds[1])
    nested = "def f(x): return x + outer.inner.A"
    assert made(nested, outer=module(1)) != made(nested, outer=module(2))
    assert made(nested, outer=module(1)) == made(nested, outer=module(1))
    fence = """
@intrinsic
def g(context):
    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()
    return types.void(), generate
def f(x): g()
"""
    assert made(fence) == made(fence)
    assert made(fence) != made(fence.replace("seq_cst", "acquire"))


def test_file_name_depends_on_options_and_fields_of_tuples():
    def name(function, kind, **options):
        return jit.KernelCache(function, options)._name([kind])

    one, other = (typeof(namedtuple("N", fields)(1.0, 2.0)) for fields in ("a b", "b a"))
    assert name(_accumulate.py_func, one) == name(_accumulate.py_func, one)
    assert name(_accumulate.py_func, one) != name(_accumulate.py_func, other)
    assert name(_accumulate.py_func, one) != name(_accumulate.py_func, one, boundscheck=True)


def test_kernels_are_loaded_from_read_only_folders(monkeypatch, tmp_path):
    """As in a container whose image was built by another user."""
    missed = []
    monkeypatch.setattr(jit, "on_miss", missed.append)
    monkeypatch.setattr(jit, "_folders", lambda source: (tmp_path, tmp_path / "user"))
    monkeypatch.setattr(jit, "_writable_folder", lambda source: tmp_path)
    jit.kernel(_accumulate.py_func)(np.zeros(2), 1.0)
    assert missed == ["_accumulate"]
    monkeypatch.setattr(jit, "_writable_folder", lambda source: None)
    x = np.zeros(2)
    jit.kernel(_accumulate.py_func)(x, 1.0)
    assert missed == ["_accumulate"]
    assert x.tolist() == [1, 1]


def test_cache_does_not_need_a_home_folder(monkeypatch):
    def expanduser(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setattr(Path, "expanduser", expanduser)
    assert jit._folders.__wrapped__("/package") == (Path("/package/__pycache__"),)


def test_cache_key_contains_versions_and_cpu(monkeypatch):
    import llvmlite
    import llvmlite.binding as llvm
    import numba

    text = jit.environment()
    assert all(module.__version__ in text.split() for module in (numba, llvmlite, np))
    assert llvm.get_host_cpu_name() in text
    for target, name in ((numba, "__version__"), (llvmlite, "__version__"), (np, "__version__")):
        with monkeypatch.context() as changed:
            changed.setattr(target, name, "9.9.9")
            assert jit.environment.__wrapped__() != text


@jit.helper
def _add(x, y):
    return x + y


@jit.kernel
def _accumulate(x, y):
    for i in range(x.shape[0]):
        x[i] = _add(x[i], y)


@pytest.mark.parametrize("executable", [sys.executable, "/nowhere/python3", "/bin/an_application", ""])
def test_kernels_are_compiled_even_if_workers_cannot_start(monkeypatch, executable, tmp_path, capsys):
    """With a worker, and with executables that cannot be started as one."""
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(_system, "cpu_count", lambda: 2)
    monkeypatch.setattr(compiling, "_WORTH_A_WORKER", 0.0)
    monkeypatch.setattr(jit, "_writable_folder", lambda source: tmp_path)
    monkeypatch.setattr(jit, "_folders", lambda source: (tmp_path,))
    from sensorium.scenarios import kernels as scenarios

    chosen = [(jit.kernel(scenarios.uniform.py_func), (np.zeros((1, 2), np.uint32), 0, 0, 0))]
    chosen += [(jit.kernel(_accumulate.py_func), (np.zeros(2), 1.0))]
    calls = [(kernel, tuple(map(typeof, given))) for kernel, given in chosen]
    compiling.prepare(calls)
    assert all(signature in kernel.overloads for kernel, signature in calls)
    messages = capsys.readouterr().err
    assert messages.count("compiling 2 kernels, once, about") == 1
    assert "compiled 2 kernels in" in messages
    compiling.prepare(calls)
    assert capsys.readouterr().err == ""
    x = np.zeros(2)
    chosen[-1][0](x, 2.0)
    assert x.tolist() == [2.0, 2.0]


@pytest.mark.slow
def test_worker_that_hangs_is_killed(monkeypatch, tmp_path, capsys):
    hanging = tmp_path / "python_that_hangs"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr(_system, "cpu_count", lambda: 2)
    monkeypatch.setattr(compiling, "_WORTH_A_WORKER", 0.0)
    monkeypatch.setattr(compiling, "_PATIENCE", 0.1)
    monkeypatch.setattr(jit, "_writable_folder", lambda source: tmp_path)
    monkeypatch.setattr(jit, "_folders", lambda source: (tmp_path,))
    from sensorium.scenarios import kernels as scenarios

    made = jit.kernel(scenarios.uniform.py_func)
    calls = [(made, tuple(map(typeof, (np.zeros((1, 2), np.uint32), kind(0), 0, 0)))) for kind in (np.int64, np.int32)]
    compiling.prepare(calls)
    assert all(signature in kernel.overloads for kernel, signature in calls)


@pytest.mark.parametrize("broken", [None, open(os.devnull)])  # noqa: SIM115
def test_messages_do_not_need_a_working_stderr(monkeypatch, broken):
    monkeypatch.setattr(sys, "stderr", broken)  # None, or a file that cannot be written
    compiling._print("compiling")
    assert not compiling._is_terminal()


def test_kernel_modules_import_without_torch():
    """Workers import modules and packages named ``*kernels`` to compile them. These need NumPy and Numba only."""
    files = [file for file in PACKAGE.rglob("*.py") if "from sensorium.jit import" in file.read_text()]
    modules = [".".join(("sensorium", *file.relative_to(PACKAGE).with_suffix("").parts)) for file in files]
    names = [name for name in modules if compiling.is_kernel_module(name)]
    assert {"sensorium.pipeline.kernels.hardware", "sensorium.robots.noise_kernels"} < set(names)
    assert len(names) > 12
    packages = {name.rsplit(".", n)[0] for name in names for n in range(1, name.count(".") + 1)}
    packages = {name for name in packages if not compiling.is_kernel_module(name)}
    code = f"""
import importlib, sys, types
for name in {sorted(packages)}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
for name in {names}:
    importlib.import_module(name)
print({{"torch", "mujoco", "pydantic"}} & sys.modules.keys())
"""
    words = [sys.executable, "-c", code, str(PACKAGE.parent)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.slow
def test_message_is_shown_only_when_kernels_are_compiled(tmp_path):
    code = """
import sensorium as sn
scene = sn.Scene()
scene.add_object(sn.Plane())
scene.add_object(sn.Box(), name="box", pos=(0, 0, 1), free=True)
scene.add_sensor(sn.IMU(link="box"))
scene.build()
scene.step()
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    messages = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        messages.append(done.stderr.splitlines())
    assert len(messages[0]) == 2
    assert "compiling" in messages[0][0]
    assert "once, about" in messages[0][0]
    assert messages[1] == []


@pytest.mark.slow
def test_processes_that_start_together_compile_kernels_once(tmp_path):
    """Workers of a dataset generation start at the same moment, all with a cold cache."""
    code = """
import sensorium as sn
scene = sn.Scene()
scene.add_object(sn.Box(), name="box", free=True)
imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.1))
scene.build()
scene.step()
print(imu.read().lin_acc)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    found = [process.communicate(timeout=300) for process in processes]
    assert len({out for out, _ in found}) == 1
    assert found[0][0].startswith("tensor")
    compiled = [err for _, err in found if "sensorium: compiled" in err]
    assert len(compiled) == 1, [err for _, err in found]
