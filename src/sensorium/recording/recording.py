"""Reading recordings: steps by number, images, and the scene as it was."""

from __future__ import annotations

import base64
import warnings
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import PART, package_versions, quote
from sensorium.recording import media
from sensorium.recording.chunk import Chunk
from sensorium.recording.describe import load_scene, model_hash
from sensorium.recording.folder import STATE, missing_in, read_config
from sensorium.recording.rows import BEFORE, STEP, RowField
from sensorium.tree import tag_set
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode
from sensorium.worlds.model_fields import MODEL_TAG

if TYPE_CHECKING:
    from sensorium.recording.retrace import Retracer

_OPEN = 8
"""Files of steps that are kept open."""


class Step(NamedTuple):
    """Everything of one recorded step that replay needs."""

    number: int
    """Of the sensors' steps."""
    before: np.ndarray | None
    """Physics before the last substep, (B, n_state); None for recordings of a GPU."""
    values: dict[str, Any]
    """Dotted name -> value."""
    events: list[dict[str, Any]]
    """What happened since the step before."""


class Recording:
    """A recording, opened by ``sn.datasets.open(folder)``. Reads what is asked for, and no more.

    ``len(episode)`` is the number of steps; ``episode[i]`` is dotted name -> array (B, ...) of step i, and
    ``episode[a:b]`` the same with the steps as first axis. Recordings that replay made hold their frames as steps, with
    images beside them.

    Attributes:
        folder: where it is.
        config: what ``config.json`` says.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = read_config(self.folder)
        missing = missing_in(self.config)
        if missing:
            raise DatasetError(
                f"{self.folder / 'config.json'} is damaged: it does not say {shorten(missing)}; restore it from a copy"
            )
        self._fields = {form["name"]: RowField.from_json(form) for form in self.config["fields"]}
        self._others: dict[str, list[str]] = dict(self.config["others"])
        self.dt = float(self.config["dt"])
        self.n_envs = int(self.config["scene"]["n_envs"])
        self.seed = int(self.config["scene"]["seed"])
        state = self.folder / STATE
        self._paths = sorted(path for path in state.glob("*.h5") if path.stem.isdigit())
        if not self._paths:
            interrupted = any(state.glob(f"*{PART}"))
            why = "it was interrupted; run `sensorium check` on it" if interrupted else "nothing was recorded"
            raise DatasetError(f"{self.folder} has no whole file of steps: {why}")
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()
        self._tracers: WeakKeyDictionary[Scene, Retracer] = WeakKeyDictionary()
        self._firsts: list[int] = []
        end = 0
        for number, path in enumerate(self._paths):
            if int(path.stem) != end:
                raise DatasetError(
                    f"{self.folder}: the steps {end} to {int(path.stem) - 1} are missing before {path.name}; restore "
                    "their files, or run `sensorium check` on it, or `sensorium replay` with --resume to render them"
                )
            self._firsts.append(end)
            chunk = self._chunk(number)
            end += len(chunk)
            # fields of the model that were given values per env when recording had begun
            self._others |= {name: [MODEL_TAG] for name in chunk.events.names if name not in self._others}
        self._length = end
        ended = self.config.get("n_steps", end)
        if end < ended:
            warnings.warn(
                f"{self.folder}: the steps {end} to {ended - 1} that were recorded are missing at the end; restore "
                "their files",
                stacklevel=3,
            )

    # -- steps --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> dict[str, Any]:
        """Dotted name -> array (B, ...) of one step, or (steps, B, ...) of several; copies."""
        if not isinstance(index, slice):
            return self._read(self._index(index), list(self._fields), list(self._others))
        steps = range(*index.indices(len(self)))
        return {name: self.column(name, steps) for name in self.names}

    def column(self, name: str, steps: range | slice | None = None) -> Any:
        """One buffer over several steps (default: all), (steps, B, ...); of text, a list."""
        if name not in self.tags:
            raise NameNotFoundError(f"{self.folder} has no buffer {name!r}{did_you_mean(name, self.names)}")
        if not isinstance(steps, range):
            steps = range(*(steps or slice(None)).indices(len(self)))
        if name in self._others:
            values = [self._other(step, name) for step in steps]
            return np.stack(values) if values and all(isinstance(one, np.ndarray) for one in values) else values
        out = np.empty((len(steps), *self._fields[name].shape), self._fields[name].dtype)
        for place, step in enumerate(steps):
            chunk, row = self._locate(step)
            out[place] = chunk.arrays[name][row]
        return out

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    def read_state_dict(
        self, index: int, include_tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """One step as ``scene.load_state_dict`` takes it: what :meth:`build_scene` makes, chosen by tags."""
        include = None if include_tags is None else tag_set("include_tags", include_tags)
        exclude = frozenset() if exclude_tags is None else tag_set("exclude_tags", exclude_tags)
        known = {tag for tags in self.tags.values() for tag in tags}
        for tag in [tag for tag in include or () if tag not in known]:
            raise OptionError(f"nothing in {self.folder} has the tag {tag!r}{did_you_mean(tag, known)}")
        extra = set(self.config["extra"])
        chosen = {
            name
            for name, tags in self.tags.items()
            if name not in extra and (include is None or include & tags) and not exclude & tags
        }
        return self._read(
            self._index(index),
            [name for name in self._fields if name in chosen],
            [name for name in self._others if name in chosen],
        )

    def _read(self, index: int, names: list[str], others: list[str]) -> dict[str, Any]:
        chunk, row = self._locate(index)
        out: dict[str, Any] = {}
        for name in names:
            if not name.startswith("@"):
                value = chunk.arrays[name][row]
                out[name] = value.item() if self._fields[name].scalar else value.copy()
        if others:
            values = chunk.events.values(row)
            out |= {name: copy(values[name]) for name in others if name in values}
        return out

    def _other(self, index: int, name: str) -> Any:
        chunk, row = self._locate(index)
        return copy(chunk.events.values(row).get(name))

    def step(self, index: int) -> Step:
        """All of one step, for replay."""
        index = self._index(index)
        chunk, row = self._locate(index)
        before = chunk.arrays[BEFORE][row] if BEFORE in chunk.arrays else None
        return Step(int(chunk.arrays[STEP][row]), before, self[index], chunk.events.of.get(row, []))

    def events(self, steps: range) -> Iterator[tuple[int, dict[str, Any]]]:
        """(step, what happened before it) of those steps in which something did."""
        for number, first in enumerate(self._firsts):
            chunk = self._chunk(number)
            for row, events in chunk.events.of.items():
                if first + row in steps:
                    yield from ((first + row, event) for event in events)

    @property
    def names(self) -> list[str]:
        """Dotted names of the buffers."""
        return list(self.tags)

    @cached_property
    def tags(self) -> dict[str, frozenset[str]]:
        """Dotted name -> tags."""
        own = {name: field.tags for name, field in self._fields.items() if not name.startswith("@")}
        return {name: frozenset(tags) for name, tags in {**own, **self._others}.items()}

    @property
    def metadata(self) -> dict[str, Any]:
        """What the recorder was given."""
        return dict(decode(self.config["metadata"]))

    @property
    def source_steps(self) -> range:
        """Which steps of the first recording these are."""
        made = self.config.get("replay")
        return range(len(self)) if made is None else range(0, len(self) * made["interval"], made["interval"])

    # -- images -------------------------------------------------------------------------------------------------------

    @cached_property
    def images(self) -> dict[str, dict[str, Any]]:
        """Dotted name -> what it is: kind ("rgb", "depth", ...), codec, unit, scale, shape."""
        return dict(self.config.get("replay", {}).get("images", {}))

    def read_rgb(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Colour of one frame, (B, H, W, 3) uint8, or (H, W, 3) of one env.

        Args:
            name: dotted name of the buffer ("robot.rig.front_left.rgb"), or of the camera.
            index: which frame.
            env: which env; None for all.
        """
        return self._image("rgb", name, index, env)

    def read_depth(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Depth, (B, H, W) float32 in metres, as it was rendered; infinite where nothing was seen."""
        return self._image("depth", name, index, env)

    def read_segmentation(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Body and geom ids, (B, H, W, 2) int32."""
        return self._image("segmentation", name, index, env)

    def read_instance(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Numbers of entities, (B, H, W) int32."""
        return self._image("instance", name, index, env)

    def read_normals(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Normals, (B, H, W, 3) float32."""
        return self._image("normals", name, index, env)

    def _image(self, kind: str, name: str, index: int, env: int | None) -> np.ndarray:
        full = next((one for one in (name, f"{name}.{kind}") if one in self.images), None)
        known = [one for one, about in self.images.items() if about["kind"] == kind]
        if full not in known:
            hint = did_you_mean(name, known) or f"; there are {shorten(known)}"
            made = f"; render them with `sensorium replay {self.folder} --{kind}`" if not known else hint
            raise NameNotFoundError(f"{self.folder} has no {kind} images {name!r}{made}")
        if env is not None and not 0 <= env < self.n_envs:
            raise OptionError(f"env must lie in [0, {self.n_envs}), got {env}")
        chunk, row = self._locate(self._index(index))
        about = self.images[full]
        folder = self.folder / kind / quote(full)
        envs = range(self.n_envs) if env is None else [env]
        frames = [media.read(folder / f"env{one:04d}" / f"{chunk.first:08d}", about, row) for one in envs]
        return np.stack(frames) if env is None else frames[0]

    # -- the scene ----------------------------------------------------------------------------------------------------

    def load_scene(self, **changes: Any) -> Scene:
        """The scene, not built; ``changes`` as of ``Scene.from_contents``."""
        late = [name.removeprefix("world.") for name, tags in self._others.items() if MODEL_TAG in tags]
        return load_scene(self.config, self.folder, late, **changes)

    def build_scene(self, device: str | None = None) -> Scene:
        """The world as it was: the same scene, built with as many envs and the same seed.

        Args:
            device: where; default: the kind of device that it was recorded on.
        """
        scene = self.load_scene()
        scene.build(n_envs=self.n_envs, seed=self.seed, device=device or self.config["scene"]["device"])
        if model_hash(scene.model) != self.config["scene"]["model"]:
            then, now = self.config["versions"], package_versions()
            changed = [f"{name} {then.get(name)} then, {now[name]} now" for name in now if then.get(name) != now[name]]
            warnings.warn(
                f"{self.folder}: the scene that was rebuilt differs from the recorded one "
                f"({', '.join(changed) or 'a model that was given as MjSpec is kept to six digits'}); replay is close, "
                "and not exact",
                stacklevel=2,
            )
        return scene

    def seek(self, scene: Scene, index: int) -> None:
        """Bring a scene to a step, with its sensors: they read what was recorded, and go on as they did.

        What sensors remember (drift, delays, filters, histories) comes from the steps before, so these are sensed on
        the way: from where the last call brought this scene, or from the first step. ``load_state_dict`` with
        ``write_replay_data`` is at once at any step, with sensors that start afresh there. Exact on the CPU engine.

        Args:
            scene: what :meth:`build_scene` made, or one with other sensors.
            index: which step.

        Example:
            >>> scene = episode.build_scene()
            >>> episode.seek(scene, 20)
            >>> scene.sensors["imu"].read()

        Raises:
            DatasetError: going back would need sensors to be as they were before they were changed.
        """
        from sensorium.recording.retrace import Retracer  # which reads episodes

        index = self._index(index)
        tracer = self._tracers.get(scene)
        if tracer is not None and (tracer.index > index or not self._is_at(scene, tracer.index)):
            if any("method" in event for step in range(1, tracer.index + 1) for event in self.step(step).events):
                raise DatasetError(
                    f"{self.folder}: sensors were changed before step {tracer.index}, where this scene is; for step "
                    f"{index}, make another one with build_scene()"
                )
            tracer = None
        if tracer is None:
            tracer = self._tracers[scene] = Retracer(self, scene)
        tracer.to(index)

    def _is_at(self, scene: Scene, index: int) -> bool:
        """Whether nothing happened to a scene since it was brought to a step."""
        step = self.step(index)
        same = np.array_equal(scene.get_state().numpy(force=True), step.values["physics"])
        return same and scene.step_count in (step.number, 0)

    def close(self) -> None:
        """Close the files."""
        for chunk in self._chunks.values():
            chunk.close()
        self._chunks.clear()

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _index(self, index: int) -> int:
        if not isinstance(index, int | np.integer):
            raise TypeError(f"steps are numbered by integers, got {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.folder} has {len(self)} steps; there is no step {index}")
        return int(index) % len(self)

    def _locate(self, index: int) -> tuple[Chunk, int]:
        number = bisect_right(self._firsts, index) - 1
        return self._chunk(number), index - self._firsts[number]

    def _chunk(self, number: int) -> Chunk:
        if number not in self._chunks:
            try:
                chunk = Chunk(self._paths[number])
            except DatasetError as error:
                raise DatasetError(f"{error}, or see what is whole: `sensorium check {self.folder}`") from None
            if {field.name for field in chunk.row.fields} != set(self._fields):
                raise DatasetError(f"{chunk.path} belongs to another recording; restore the right file")
            self._chunks[number] = chunk
            while len(self._chunks) > _OPEN:
                self._chunks.popitem(last=False)[1].close()
        self._chunks.move_to_end(number)
        return self._chunks[number]

    def __repr__(self) -> str:
        return f"<Recording {str(self.folder)!r}: {len(self)} steps of {self.n_envs} envs>"


def event_state(event: dict[str, Any], width: int) -> np.ndarray:
    """The states that a restart was to, (n, n_state)."""
    return np.frombuffer(base64.b64decode(event["state"]), "<f8").reshape(-1, width)
