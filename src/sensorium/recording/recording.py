"""Reading recordings: steps by number, images, and the recorded scene."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from sensorium._arguments import checked, checked_index, checked_range
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import PART
from sensorium.recording.chunk import Chunk
from sensorium.recording.describe import load_scene, model_hash
from sensorium.recording.events import Event, Step
from sensorium.recording.folder import CONFIG, STATE, missing_in, read_config
from sensorium.recording.image_files import ImageHeader
from sensorium.recording.replay_images import ReplayImages
from sensorium.recording.rows import BEFORE, IMAGE_TAGS, STEP, RowField
from sensorium.recording.stand_ins import add_stand_ins
from sensorium.tree import selects, tag_set
from sensorium.versions import package_versions
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode
from sensorium.worlds.model_fields import MODEL_TAG

if TYPE_CHECKING:
    from sensorium.recording.retrace import Retracer

_MAX_OPEN = 8
"""Maximum number of chunks that are kept open."""


class Recording:
    """A recording of a scene, or a replay of one. Only the data that is asked for is read.

    ``len(recording)`` is the number of steps. ``recording[i]`` returns dotted name -> array (B, ...) of step i, and
    ``recording[a:b]`` the same with the steps as the first axis. The steps of a replay are its frames; their images are
    read with ``read_rgb`` and the like.

    Args:
        folder: folder that :class:`Recorder` or :func:`replay` wrote.

    Attributes:
        folder: the folder.
        config: content of ``config.json``.
        dt: seconds from one step to the next.
        n_envs: number of envs, B.
        seed: seed of the scene.

    Raises:
        DatasetError: the folder is not a recording, or is damaged.

    Example:
        >>> recording = sn.recording.Recording("runs/a")
        >>> recording[20]["box.position"]  # (B, 3)
    """

    @checked
    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = read_config(self.folder)
        missing = missing_in(self.config)
        if missing:
            raise DatasetError(f"{self.folder / CONFIG} is damaged: it lacks {shorten(missing)}; restore a backup")
        self._fields = {form["name"]: RowField.from_json(form) for form in self.config["fields"]}
        self._others: dict[str, list[str]] = dict(self.config["others"])
        self.dt = float(self.config["dt"])
        self.n_envs, self.seed = (int(self.config["scene"][name]) for name in ("n_envs", "seed"))
        state = self.folder / STATE
        self._paths = sorted(path for path in state.glob("*.h5") if path.stem.isdigit())
        if not self._paths:
            interrupted = any(state.glob(f"*{PART}"))
            why = "it was interrupted; run `sensorium validate --update`" if interrupted else "nothing was recorded"
            raise DatasetError(f"{self.folder} has no complete chunk of steps: {why}")
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()
        self._tracers: WeakKeyDictionary[Scene, Retracer] = WeakKeyDictionary()
        self._firsts: list[int] = []
        end = 0
        for number, path in enumerate(self._paths):
            if int(path.stem) != end:
                raise DatasetError(
                    f"{self.folder}: steps {end} to {int(path.stem) - 1} are missing before {path.name}; restore their "
                    "files, or run `sensorium validate` on it, or `sensorium replay` with --resume to render them"
                )
            self._firsts.append(end)
            chunk = self._chunk(number)
            end += len(chunk)
            # model fields that got values per env after recording had begun
            self._others |= {name: [MODEL_TAG] for name in chunk.events.names if name not in self._others}
        self._length = end
        n_steps = self.config.get("n_steps", end)
        if end < n_steps:
            warnings.warn(
                f"{self.folder}: recorded steps {end} to {n_steps - 1} are missing at the end; restore their files",
                stacklevel=3,
            )

    # -- steps --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> dict[str, Any]:
        """Return copies of the buffers of one step, name -> (B, ...), or of several, name -> (steps, B, ...)."""
        if not isinstance(index, slice):
            return self._read(self._index(index), list(self._fields), list(self._others))
        steps = checked_range(self.folder, "step", index, len(self))
        return {name: self.column(name, steps) for name in self.names}

    @checked
    def column(self, name: str, steps: range | slice | None = None) -> Any:
        """Return one buffer over several steps.

        Args:
            name: dotted name of the buffer.
            steps: which steps. Default: all.

        Returns:
            An array (steps, B, ...); a list for a buffer of text.

        Raises:
            NameNotFoundError: the recording has no such buffer.
            IndexRangeError: there is no such step.
        """
        if name not in self.tags:
            raise NameNotFoundError(f"{self.folder} has no buffer {name!r}{did_you_mean(name, self.names)}")
        steps = checked_range(self.folder, "step", slice(None) if steps is None else steps, len(self))
        if name in self._others:
            values = [self._other(step, name) for step in steps]
            return np.stack(values) if values and all(isinstance(value, np.ndarray) for value in values) else values
        out = np.empty((len(steps), *self._fields[name].shape), self._fields[name].dtype)
        for number, step in enumerate(steps):
            chunk, row = self._locate(step)
            out[number] = chunk.arrays[name][row]
        return out

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    @checked
    def read_state_dict(
        self, index: int, include_tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return the buffers of one step, for ``load_state_dict`` of the scene that :meth:`build_scene` returns.

        Args:
            index: number of the step.
            include_tags: only buffers with one of these tags, as in ``state_dict``. Default: all.
            exclude_tags: skip buffers with one of these tags.

        Raises:
            OptionError: no buffer has one of ``include_tags``, or ``index`` is not an integer.
            IndexRangeError: there is no such step.
        """
        include = None if include_tags is None else tag_set("include_tags", include_tags)
        exclude = frozenset() if exclude_tags is None else tag_set("exclude_tags", exclude_tags)
        known = {tag for tags in self.tags.values() for tag in tags}
        for tag in [tag for tag in include or () if tag not in known]:
            raise OptionError(f"no buffer in {self.folder} has the tag {tag!r}{did_you_mean(tag, known)}")
        chosen = {name for name, tags in self.tags.items() if selects(tags, include, exclude)}
        return self._read(self._index(index), *self._select(chosen))

    def read_state_dict_common(self, index: int) -> dict[str, Any]:
        """Return the buffers of one step that are not images: :meth:`read_state_dict` without image tags."""
        return self.read_state_dict(index, exclude_tags=IMAGE_TAGS)

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

    def step(self, index: int, names: Collection[str] | None = None) -> Step:
        """Return one step for replay, compared with its checksum; its buffers in ``names``. Default: all."""
        index = self._index(index)
        chunk, row = self._locate(index)
        chunk.verify(row)
        before = chunk.arrays[BEFORE][row] if BEFORE in chunk.arrays else None
        values = self[index] if names is None else self._read(index, *self._select(names))
        return Step(int(chunk.arrays[STEP][row]), before, values, chunk.events.by_row.get(row, []))

    def _select(self, names: Collection[str]) -> tuple[list[str], list[str]]:
        """Return which names are in the rows of steps, and which beside them."""
        if isinstance(names, str) or not (isinstance(names, Collection) and all(isinstance(one, str) for one in names)):
            raise OptionError(f"names must be a collection of names of buffers, got {names!r:.80}")
        return [name for name in self._fields if name in names], [name for name in self._others if name in names]

    @checked
    def events(self, steps: range) -> Iterator[tuple[int, Event]]:
        """Yield (step, event) of all events in some steps. An event belongs to the first step after it."""
        for number, first in enumerate(self._firsts):
            chunk = self._chunk(number)
            for row, events in chunk.events.by_row.items():
                if first + row in steps:
                    yield from ((first + row, event) for event in events)

    @property
    def names(self) -> list[str]:
        """Dotted names of the buffers."""
        return list(self.tags)

    @cached_property
    def tags(self) -> dict[str, frozenset[str]]:
        """Tags of the buffers: dotted name -> tags."""
        own = {name: field.tags for name, field in self._fields.items() if not name.startswith("@")}
        return {name: frozenset(tags) for name, tags in {**own, **self._others}.items()}

    @property
    def metadata(self) -> dict[str, Any]:
        """The ``metadata`` that the recorder was given."""
        return dict(decode(self.config["metadata"]))

    @property
    def source_steps(self) -> range:
        """The step numbers of the original recording that the steps of a replay show."""
        made = self.config.get("replay")
        return range(len(self)) if made is None else range(0, len(self) * made["interval"], made["interval"])

    # -- images -------------------------------------------------------------------------------------------------------

    @cached_property
    def images(self) -> dict[str, ImageHeader]:
        """Image buffers of a replay: dotted name -> header with kind ("rgb", "depth", ...), codec, unit, shape, ..."""
        return dict(self.config.get("replay", {}).get("images", {}))

    def read_rgb(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Return the colour image of one frame, (B, H, W, 3) uint8, or (H, W, 3) of one env.

        Args:
            name: dotted name of the buffer ("robot.rig.front_left.rgb"), or of the camera.
            index: number of the frame.
            env: number of the env. Default: all.

        Raises:
            NameNotFoundError: the replay has no such image.
            DatasetError: the image file is missing or damaged.
        """
        return self._image("rgb", name, index, env)

    def read_depth(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Return depth in metres, (B, H, W) float32, as rendered; infinite where no surface is hit."""
        return self._image("depth", name, index, env)

    def read_segmentation(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Return body and geom ids, (B, H, W, 2) int32."""
        return self._image("segmentation", name, index, env)

    def read_instance(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Return entity numbers, (B, H, W) int32."""
        return self._image("instance", name, index, env)

    def read_normals(self, name: str, index: int, env: int | None = None) -> np.ndarray:
        """Return surface normals, (B, H, W, 3) float32."""
        return self._image("normals", name, index, env)

    def _image(self, kind: str, name: str, index: int, env: int | None) -> np.ndarray:
        images = ReplayImages(self.folder, self.images, self.n_envs)
        buffer = images.check(kind, name, env)
        chunk, row = self._locate(self._index(index))
        return images.read(buffer, chunk.first, row, env)

    # -- the scene ----------------------------------------------------------------------------------------------------

    def load_scene(self, **changes: Any) -> Scene:
        """Return the recorded scene, not built.

        Args:
            **changes: further arguments of :meth:`Scene.from_contents`.
        """
        expanded = [name.removeprefix("world.") for name, tags in self._others.items() if MODEL_TAG in tags]
        return load_scene(self.config, self.folder, expanded, **changes)

    @checked
    def build_scene(self, device: str | None = None) -> Scene:
        """Return the recorded scene, built with the recorded number of envs and seed.

        Modules and buffers of your own that were children of the recorded scene are not created, because a recording
        holds no code. Their recorded values are in its tree nevertheless, under the same names. Add a module again
        (``scene.add_child(name, module)``, or as an attribute), and it takes the place of its values.

        A warning is issued if the compiled model differs from the recorded one, e.g. with another MuJoCo version.

        Args:
            device: "cpu" or "cuda". Default: the kind of device it was recorded on.
        """
        scene = self.load_scene()
        scene.build(n_envs=self.n_envs, seed=self.seed, device=device or self.config["scene"]["device"])
        if model_hash(scene.model) != self.config["scene"]["model"]:
            then, now = self.config["versions"], package_versions()
            changed = [
                f"{name} {then[name]} then, {now[name]} now" for name in now if then.get(name) not in (None, now[name])
            ]
            warnings.warn(
                f"{self.folder}: the rebuilt scene differs from the recorded one "
                f"({', '.join(changed) or 'a model given as MjSpec is stored with six digits'}); replay is close but "
                "not exact",
                stacklevel=2,
            )
        add_stand_ins(scene, self)
        return scene

    @checked
    def seek(self, scene: Scene, index: int) -> None:
        """Bring a scene and its sensors to a step: sensors read the recorded values, and continue as they did.

        Sensor memory (drift, delays, filters, histories) depends on the steps before, so these are sensed on the way:
        from the step that the last call brought this scene to, or from the first step. In contrast,
        ``load_state_dict`` with ``write_replay_data`` jumps to any step, and the sensors restart there. Exact on the
        CPU backend.

        Args:
            scene: a scene of :meth:`build_scene`, or one with other sensors.
            index: number of the step.

        Raises:
            DatasetError: the step lies before a change of sensors that the scene has already made.
            IndexRangeError: there is no such step.

        Example:
            >>> scene = recording.build_scene()
            >>> recording.seek(scene, 20)
            >>> scene.sensors["imu"].read()
        """
        from sensorium.recording.retrace import Retracer  # it imports this module

        index = self._index(index)
        tracer = self._tracers.get(scene)
        if tracer is not None and (tracer.index > index or not self._is_at(scene, tracer.index)):
            if any("method" in event for step in range(1, tracer.index + 1) for event in self.step(step).events):
                raise DatasetError(
                    f"{self.folder}: cannot go back to step {index}, because sensors were changed before step "
                    f"{tracer.index}, where the scene is; build another scene with build_scene()"
                )
            tracer = None
        if tracer is None:
            tracer = self._tracers[scene] = Retracer(self, scene)
        tracer.to(index)

    def _is_at(self, scene: Scene, index: int) -> bool:
        """Return whether a scene is unchanged since it was brought to a step."""
        step = self.step(index, ("physics",))
        same = np.array_equal(scene.get_state().numpy(force=True), step.values["physics"])
        return same and scene.step_count in (step.number, 0)

    def close(self) -> None:
        """Close the files."""
        for chunk in self._chunks.values():
            chunk.close()
        self._chunks.clear()

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _index(self, index: int) -> int:
        return checked_index(self.folder, "step", index, len(self))

    def _locate(self, index: int) -> tuple[Chunk, int]:
        number = bisect_right(self._firsts, index) - 1
        return self._chunk(number), index - self._firsts[number]

    def _chunk(self, number: int) -> Chunk:
        if number not in self._chunks:
            try:
                chunk = Chunk(self._paths[number])
            except DatasetError as error:
                raise DatasetError(f"{error}. `sensorium validate {self.folder}` lists what is complete") from None
            if {field.name for field in chunk.row.fields} != set(self._fields):
                raise DatasetError(f"{chunk.path} belongs to another recording; restore the right file")
            self._chunks[number] = chunk
            while len(self._chunks) > _MAX_OPEN:
                self._chunks.popitem(last=False)[1].close()
        self._chunks.move_to_end(number)
        return self._chunks[number]

    def __repr__(self) -> str:
        return f"<Recording {str(self.folder)!r}: {len(self)} steps of {self.n_envs} envs>"
