"""Draw the pictures of docs/sensors/touch.md.

.venv/bin/python docs/gallery/touch.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
PRESS = """<mujoco><worldbody><body name="tip" pos="0 0 0.05">
  <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
  <joint name="z" type="slide" axis="0 0 1"/><joint name="turn" type="hinge" axis="0 0 1"/>
  <geom {geom} contype="2" conaffinity="2" mass="1"/></body></worldbody></mujoco>"""
CRATE = """<mujoco><worldbody><body name="crate"><freejoint/>
  <geom type="box" size="0.05 0.04 0.02" mass="0.2"/>
  <geom type="sphere" size="0.005" pos="0.03 0.015 0.01" mass="0.6" contype="0" conaffinity="0"/>
</body></worldbody></mujoco>"""


def press_scene(geom: str) -> sn.Scene:
    """Return a scene with a pad whose upper face is z = 0, and an indenter that moves as set and does not collide."""
    scene = sn.Scene(dt=0.005, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.02)), name="pad", pos=(0, 0, -0.01))
    scene.add_robot(PRESS.format(geom=geom), name="indenter")
    return scene


def place(scene: sn.Scene, z: float, velocity: tuple[float, ...] = (0, 0, 0, 0)) -> None:
    """Set the height of the indenter's centre, and the velocities of its joints."""
    scene["indenter"].set_joint_positions([0, 0, z - 0.05, 0])
    scene["indenter"].set_joint_velocities(velocity)


def draw_probes() -> None:
    """Draw distance, depth, and a switch with and without hysteresis, while a ball approaches and leaves."""
    scene = press_scene('type="sphere" size="0.01"')
    common = {"link": "pad", "pos": (0, 0, 0.01)}
    far = scene.add_sensor(sn.Proximity(**common, max_range=0.015, noise=2e-4))
    probe = {**common, "radius": 0.006, "noise": 3e-4}
    depth = scene.add_sensor(sn.ContactDepthProbe(**probe))
    bare = scene.add_sensor(sn.ContactProbe(**probe, contact_threshold=0.003, uuid="bare"))
    steady = scene.add_sensor(
        sn.ContactProbe(**probe, contact_threshold=0.003, release_threshold=0.0015, uuid="steady")
    )
    scene.build(seed=3)
    rows = []
    for step in range(240):
        angle = 2 * np.pi * step / 240
        place(scene, 0.021 + 0.011 * np.cos(angle) - 0.0005)
        scene.step()
        readings = far.read().distances, depth.read(), depth.read_ground_truth(), bare.read(), steady.read()
        rows.append([reading.item() for reading in readings])
    values = np.array(rows)
    time = np.arange(240) * scene.dt
    figure, axes = plt.subplots(3, 1, figsize=(7, 5.2), sharex=True, layout="constrained")
    axes[0].plot(time, 1e3 * values[:, 0], lw=1)
    axes[0].axhline(15, color="0.6", ls=":", lw=1)
    axes[0].set_ylabel("Proximity [mm]")
    axes[1].plot(time, 1e3 * values[:, 1], lw=0.8, label="measured")
    axes[1].plot(time, 1e3 * values[:, 2], "k", lw=1, label="ground truth")
    axes[1].axhline(3, color="C3", ls="--", lw=1, label="contact threshold")
    axes[1].axhline(1.5, color="C2", ls="--", lw=1, label="release threshold")
    axes[1].set_ylabel("depth [mm]")
    axes[1].legend(fontsize=7, ncols=2)
    axes[2].fill_between(time, 1.2, 1.2 + 0.9 * values[:, 3], step="post", label="one threshold")
    axes[2].fill_between(time, 0, 0.9 * values[:, 4], step="post", color="C2", label="with hysteresis")
    axes[2].set_yticks([0.45, 1.65], ["with\nhysteresis", "one\nthreshold"], fontsize=8)
    axes[2].set_ylabel("ContactProbe")
    axes[2].set_xlabel("time [s]")
    save(figure, "touch_probes")


def draw_tactile() -> None:
    """Draw the true and the measured forces of a lopsided crate on a slope."""
    scene = sn.Scene(dt=0.01)
    tilt = 0.25
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.02)), name="pad", pos=(0, 0, 0.5), euler=(0, tilt, 0))
    where = (0.031 * np.sin(tilt), 0, 0.5 + 0.031 * np.cos(tilt))
    scene.add_object(CRATE, name="load", pos=where, euler=(0, tilt, 0))
    skin = {"gain_spread": 0.15, "dead_fraction": 0.03, "crosstalk_length": 0.006, "noise": 0.003}
    pad = scene.add_sensor(sn.TactileArray(link="pad", pos=(0, 0, 0.01), grid=(16, 16), spacing=0.008, **skin))
    scene.build(seed=4)
    scene.step(count=100)
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.8), layout="constrained", sharey=True)
    x = (np.arange(16) - 7.5) * 8
    for axis, reading, title in (
        (axes[0], pad.read_ground_truth(), "ground truth"),
        (axes[1], pad.read(), "measured"),
    ):
        force = reading.force[0].reshape(16, 16, 3).numpy()
        image = axis.pcolormesh(x, x, -1e3 * force[..., 2], cmap="viridis", vmin=0)
        axis.quiver(x, x, force[..., 0], force[..., 1], color="w", scale=0.5, width=0.004)
        axis.set(title=title, xlabel="x [mm]", aspect="equal")
        total = force.sum((0, 1))
        axis.text(-62, -62, f"sum ({total[0]:.2f}, {total[1]:.2f}, {total[2]:.2f}) N", color="w", fontsize=8)
        figure.colorbar(image, ax=axis, label="pressure [mN per taxel]", shrink=0.85)
    axes[0].set_ylabel("y [mm]")
    save(figure, "touch_tactile")


def draw_relaxation() -> None:
    """Draw the response of a skin with a Maxwell branch to a step load."""
    scene = press_scene('type="box" size="0.02 0.02 0.01"')
    options = {"positions": ((0, 0, 0),), "stiffness": 1000.0, "radius": 0.002}
    skin = sn.TactileArray(link="pad", pos=(0, 0, 0.01), relaxation_fraction=0.4, relaxation_time=0.1, **options)
    taxel = scene.add_sensor(skin)
    scene.build()
    rows = []
    for step in range(200):
        place(scene, 0.011 if 30 <= step < 130 else 0.03)
        scene.step()
        rows.append([-taxel.read().force[0, 0, 2].item(), -taxel.read_ground_truth().force[0, 0, 2].item()])
    values, time = np.array(rows), np.arange(200) * scene.dt
    figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
    axis.plot(time, values[:, 1], "k", lw=1, label="ground truth")
    axis.plot(time, values[:, 0], label="measured")
    axis.set(xlabel="time [s]", ylabel="normal force [N]")
    axis.legend(fontsize=8)
    save(figure, "touch_relaxation")


def draw_depth() -> None:
    """Draw both depths in a section below a ball and below a punch, and the markers of a gel below the punch."""
    x = np.linspace(-6, 6, 241)
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.1), layout="constrained")
    punch = 'type="box" size="0.0032 0.0032 0.005"'
    cases = (
        ("ball, R = 8 mm, pressed 1.2 mm", 'type="sphere" size="0.008"', 0.0068, lambda: 1.2 - 8 + np.sqrt(64 - x**2)),
        ("punch, 6.4 mm wide, pressed 2 mm", punch, 0.003, lambda: np.where(np.abs(x) < 3.2, 2.0, 0.0)),
    )
    for axis, (title, geom, z, form) in zip(axes[:2], cases, strict=True):
        scene = press_scene(geom)
        gel = sn.ElastomerDisplacement(link="pad", pos=(0, 0, 0.01), grid=(1, 241), size=(0.01205, 0.001))
        line = tuple((float(value) / 1e3, 0.0, 0.0) for value in x)
        probe = sn.ContactDepthProbe(link="pad", pos=(0, 0, 0.01), positions=line, radius=0.0, normals=(0.0, 0.0, 1.0))
        normal, nearest = scene.add_sensor(gel), scene.add_sensor(probe)
        scene.build()
        place(scene, z)
        scene.step()
        axis.plot(x, np.maximum(form(), 0), color="0.75", lw=6, label="closed form")
        axis.plot(x, -1e3 * normal.read()[0, 0, :, 2].numpy(), "C0", label='"normal"')
        axis.plot(x, 1e3 * nearest.read()[0].numpy(), "C3--", label='"nearest"')
        axis.set(title=title, xlabel="x [mm]", ylabel="depth [mm]")
        axis.invert_yaxis()
    axes[0].legend(fontsize=8)
    scene = press_scene(punch)
    pad = scene.add_sensor(sn.ElastomerDisplacement(link="pad", pos=(0, 0, 0.01), grid=(13, 13), size=(0.013, 0.013)))
    scene.build()
    place(scene, 0.003)
    scene.step()
    u = 1e3 * pad.read()[0].numpy()
    at = np.arange(-6, 7)
    image = axes[2].pcolormesh(at, at, -u[..., 2], cmap="Blues", vmin=0)
    axes[2].quiver(at, at, u[..., 0], u[..., 1], angles="xy", scale_units="xy", scale=0.5, width=0.005, color="C3")
    axes[2].set(title="markers of a gel below the punch", xlabel="x [mm]", ylabel="y [mm]", aspect="equal")
    figure.colorbar(image, ax=axes[2], label="depth [mm]", shrink=0.75)
    save(figure, "touch_depth")


def draw_elastomer() -> None:
    """Draw the markers of a gel that a ball presses, a box drags, and a box turns."""
    box = 'type="box" size="0.0041 0.0041 0.002"'
    cases = (
        ("a ball pressed in", 'type="sphere" size="0.006"', 0.0051, (0, 0, 0, 0)),
        ("a box dragged along x", box, 0.0016, (0.008, 0, 0, 0)),
        ("a box turned", box, 0.0016, (0, 0, 0, 1.2)),
    )
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained", sharey=True)
    for axis, (title, geom, z, velocity) in zip(axes, cases, strict=True):
        scene = press_scene(geom)
        gel = scene.add_sensor(sn.ElastomerDisplacement(link="pad", pos=(0, 0, 0.01), grid=(17, 17), thickness=0.003))
        scene.build()
        place(scene, z, velocity)
        scene.step(count=11)
        u = 1e3 * gel.read()[0].numpy()
        x = (np.arange(17) - 8) * 20 / 17
        image = axis.pcolormesh(x, x, -u[..., 2], cmap="Blues", vmin=0)
        axis.quiver(x, x, u[..., 0], u[..., 1], angles="xy", scale_units="xy", scale=0.15, width=0.005, color="C3")
        axis.set(title=title, xlabel="x [mm]", aspect="equal")
        figure.colorbar(image, ax=axis, label="depth [mm]", shrink=0.75)
    axes[0].set_ylabel("y [mm]")
    save(figure, "touch_elastomer")


def save(figure: plt.Figure, name: str) -> None:
    """Write a figure to docs/pictures."""
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{name}.png", dpi=90)
    plt.close(figure)


def main() -> None:
    """Draw all pictures."""
    draw_probes()
    draw_tactile()
    draw_relaxation()
    draw_depth()
    draw_elastomer()


if __name__ == "__main__":
    main()
