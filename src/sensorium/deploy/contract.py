"""``Contract``: what a policy file expects of its observations and what its actions mean.

The contract is JSON, inside the ONNX file (metadata ``sensorium_contract``) and beside it (``policy.json`` for
``policy.onnx``). It needs the standard library only. Observations and actions are lists of terms, in the order of the
network's input ``observation`` and outputs ``action`` and ``command``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from sensorium._arguments import checked
from sensorium.errors import DatasetError, did_you_mean
from sensorium.json_files import load_json

FORMAT = "sensorium-policy"
"""Value of ``format``."""
VERSION = 1
"""Version of the format."""
METADATA = "sensorium_contract"
"""Key of the contract in the metadata of an ONNX file."""
VECTOR = "observation"
"""Input of the network that holds all terms that are not images."""

Source = Literal["sensor", "command", "previous_action"]
"""Where a term comes from: a message, the caller of ``act``, or the network's last output ``action``."""
Conversion = Literal["values", "quaternion", "yaw", "joints", "time", "points", "image"]
"""How a field of a message becomes the values of a term; see :mod:`sensorium.deploy.messages`."""

_TermT = TypeVar("_TermT", "ObservationTerm", "ActionTerm")


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Assumed time from capture to arrival of a term's samples, s."""

    delay: float = 0.0
    """Constant part."""
    jitter: float = 0.0
    """Upper bound of the random part."""
    max: float = 0.0
    """Largest latency in training, with what was randomised."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Statistics of a term over episodes of the policy in its task, one number for each component."""

    min: tuple[float, ...]
    """Smallest values."""
    max: tuple[float, ...]
    """Largest values."""
    mean: tuple[float, ...]
    """Means."""
    std: tuple[float, ...]
    """Standard deviations."""
    samples: int
    """Number of observations."""


@dataclass(frozen=True, kw_only=True)
class ObservationTerm:
    """One term of the observation: some consecutive values of the network's input.

    The values are ``clip(scale * reading + offset)``. With a history they are the readings at the times of
    :attr:`ages`, newest first: shape (history, \\*shape), flattened. Normalisation is inside the network.
    """

    name: str
    """Name in the task, e.g. "imu.lin_acc"."""
    source: Source = "sensor"
    """Where it comes from. Terms that are not from a sensor have no topic, message, field and link."""
    uuid: str
    """uuid of the sensor; of other terms, their name."""
    topic: str = ""
    """ROS topic."""
    message: str = ""
    """Type of the message, e.g. "sensor_msgs/msg/Imu"."""
    field: str = ""
    """Path of the value in the message, e.g. "linear_acceleration"."""
    conversion: Conversion = "values"
    """How the field becomes values. "quaternion": x, y, z, w of ROS to w, x, y, z. "joints": by the names."""
    frame: str
    """Frame of the values."""
    link: str = ""
    """Link that carries the sensor."""
    pos: tuple[float, ...] | None = None
    """Position of the sensor in the frame of the link, m."""
    quat: tuple[float, ...] | None = None
    """Orientation of the sensor in the frame of the link, (w, x, y, z)."""
    unit: str | tuple[str, ...]
    """Unit of the values; a list if components differ."""
    names: tuple[str, ...] = ()
    """Names of the components in order, e.g. joints; empty if they have none."""
    shape: tuple[int, ...]
    """Shape of one reading."""
    input: str = VECTOR
    """Input of the network: "observation", or one of its own for an image."""
    dtype: str = "float32"
    """Type of the values: "float32", or "uint8" for images."""
    scale: float = 1.0
    """Factor from the reading to the observation."""
    offset: float = 0.0
    """Offset from the reading to the observation, after the factor."""
    clip: tuple[float, ...] | None = None
    """Bounds (min, max) of the observation; None for no bounds."""
    no_return: float | None = None
    """Value of a ray without a return, where ROS has infinity or NaN; None for other sensors."""
    history: int = 1
    """Number of readings."""
    ages: tuple[float, ...] = (0.0,)
    """Seconds before the decision at which each reading was current, newest first."""
    rate: float
    """Samples per second, Hz."""
    latency: Latency = Latency()
    """Assumed latency."""
    noise: tuple[float, ...]
    """Assumed standard deviation of the noise of one sample, one number for each component, in the unit; empty
    for images."""
    imperfections: dict[str, object] = dataclasses.field(default_factory=dict)
    """Other assumed imperfections by the names of the sensor's options, and ranges of what was randomised."""
    seen: Seen | None = None
    """Statistics in episodes of the policy; None for images."""

    @property
    def size(self) -> int:
        """Number of components of one reading."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class ActionTerm:
    """One term of the action: some consecutive values of the network's outputs.

    ``command = clip(offset + scale * action, min, max)``. The network has both as outputs.
    """

    name: str
    """Name of the group of joints, e.g. "arm"."""
    kind: str
    """Meaning of the command: "joint_position", "joint_velocity" (velocity of the joint targets), "joint_torque", or
    another name of a controller, e.g. "base_velocity"."""
    names: tuple[str, ...]
    """Joints, or names of the values where they are not one per joint, in order."""
    actuators: tuple[str, ...] = ()
    """Actuators in order; empty if they are not one per value."""
    unit: str | tuple[str, ...]
    """Unit of the command; a list if values differ."""
    scale: tuple[float, ...]
    """Factors from action to command."""
    offset: tuple[float, ...]
    """Command of an action of 0."""
    min: tuple[float | None, ...]
    """Lower bounds of the command; None for none."""
    max: tuple[float | None, ...]
    """Upper bounds of the command; None for none."""
    default_pose: tuple[float, ...] | None = None
    """Positions of the joints at the start of an episode, rad or m; None if values are not one per joint."""
    rate: float
    """Commands per second, Hz."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a policy file expects and means. Make one from a file with :func:`~sensorium.deploy.read_contract`."""

    task: str
    """Name of the task."""
    robot: str
    """Name or model file of the robot."""
    rate: float
    """Decisions per second, Hz."""
    observations: tuple[ObservationTerm, ...]
    """Terms of the observation in order."""
    actions: tuple[ActionTerm, ...]
    """Terms of the action in order."""
    state: int = 0
    """Size of the memory of a recurrent network (input ``state``, output ``next_state``), 0 without one."""
    seed: int
    """Seed of the training."""
    algorithm: str
    """Learner: "sac" or "ppo"."""
    steps: int | None = None
    """Steps of the training at its last checkpoint, if they are known."""
    which: str
    """Policy of the training: "best" or "last"."""
    versions: dict[str, str]
    """Versions of the packages of the export."""
    hash: str = ""
    """BLAKE2b of the network and of the contract without its hash, in hexadecimal digits."""

    @property
    def n_observations(self) -> int:
        """Length of the network's input ``observation``."""
        return sum(term.size * term.history for term in self.observations if term.input == VECTOR)

    @property
    def n_actions(self) -> int:
        """Length of the network's outputs ``action`` and ``command``."""
        return sum(len(term.names) for term in self.actions)

    @property
    def topics(self) -> dict[str, str]:
        """Topics that the policy needs -> type of their messages."""
        return {term.topic: term.message for term in self.observations if term.source == "sensor"}

    def to_dict(self) -> dict[str, object]:
        """Return the contract as plain values for JSON."""
        found: dict[str, Any] = {"format": FORMAT, "version": VERSION, **_plain(self)}
        for term in found["observations"]:
            if term["source"] != "sensor":
                for key in ("topic", "message", "field", "link", "pos", "quat", "conversion"):
                    del term[key]
        return found

    def to_json(self) -> str:
        """Return the contract as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    @checked
    def hashed(self, network: bytes) -> Contract:
        """Return the contract with the hash for a network, see :func:`~sensorium.deploy.onnx_file.split`."""
        return dataclasses.replace(self, hash=self.compute_hash(network))

    @checked
    def compute_hash(self, network: bytes) -> str:
        """Return the BLAKE2b hash of a network and of this contract without its hash."""
        values = self.to_dict()
        del values["hash"]
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.blake2b(network + b"\0" + text.encode(), digest_size=32).hexdigest()

    @classmethod
    @checked
    def from_json(cls, text: str | bytes, where: str = "the contract") -> Contract:
        """Return the contract of JSON text.

        Args:
            text: the JSON.
            where: name of the file for messages.

        Raises:
            DatasetError: it is no contract of this version, or a term has a wrong value. Names the term and the key.
        """
        try:
            values = load_json(text)
        except ValueError as error:
            raise DatasetError(f"{where} is not JSON: {error}") from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise DatasetError(f"{where} is not the contract of a policy: format must be {FORMAT!r}")
        version = values.get("version")
        if version != VERSION:
            raise DatasetError(
                f"{where} has version {version!r} of the format, and this version of Sensorium reads {VERSION}; "
                "install the version of Sensorium that wrote it, or export the policy again"
            )
        given = {key: value for key, value in values.items() if key not in ("format", "version")}
        for key in ("observations", "actions"):
            if not isinstance(given.get(key), list) or not given[key]:
                raise DatasetError(f"{where}: {key} must be a list of at least one term, got {given.get(key)!r}")
        given["observations"] = _terms(ObservationTerm, given["observations"], f"{where}: observations")
        given["actions"] = _terms(ActionTerm, given["actions"], f"{where}: actions")
        contract = cls(**_checked(cls, given, where))
        _check_terms(contract, where)
        return contract


def _plain(value: object) -> dict[str, Any]:
    """Return a dataclass as dicts, lists and numbers."""
    found: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(value)))  # type: ignore[call-overload]
    return found


# -- validation --------------------------------------------------------------------------------------------------------


def _terms(kind: type[_TermT], values: Sequence[object], where: str) -> tuple[_TermT, ...]:
    return tuple(_term(kind, each, f"{where}[{number}]") for number, each in enumerate(values))


def _term(kind: type[_TermT], values: object, where: str) -> _TermT:
    if not isinstance(values, Mapping):
        raise DatasetError(f"{where} must be a mapping, got {values!r}")
    name = values.get("name")
    return kind(**_checked(kind, values, f"{where} ({name})" if isinstance(name, str) else where))


def _checked(kind: type, values: Mapping[str, object], where: str) -> dict[str, Any]:
    """Return the arguments of a dataclass from JSON values.

    Raises:
        DatasetError: a key is unknown, missing or of the wrong type.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in values:
        if key not in fields:
            raise DatasetError(f"{where}: there is no key {key!r}{did_you_mean(key, fields)}")
    found = {}
    for key, field in fields.items():
        if key in values:
            found[key] = _value(str(field.type), values[key], f"{where}.{key}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DatasetError(f"{where}: the key {key!r} is missing")
    return found


def _value(kind: str, value: object, where: str) -> object:
    """Return a JSON value as the type of a field, which is given as the text of its annotation."""
    if kind.endswith("| None") and value is None:
        return None
    kind = kind.removesuffix(" | None")
    if kind in ("Source", "Conversion"):
        allowed = get_args(Source if kind == "Source" else Conversion)
        if value not in allowed:
            raise DatasetError(f"{where} must be one of {', '.join(allowed)}, got {value!r}")
        return value
    if kind in ("Latency", "Seen") and isinstance(value, Mapping):
        made = Latency if kind == "Latency" else Seen
        return made(**_checked(made, value, where))
    if kind in ("tuple[ObservationTerm, ...]", "tuple[ActionTerm, ...]"):
        return value
    if kind.startswith("str | tuple"):
        kind = "str" if isinstance(value, str) else "tuple[str, ...]"
    if kind.startswith("tuple["):
        inner = kind.removeprefix("tuple[").removesuffix(", ...]")
        if not isinstance(value, list | tuple):
            raise DatasetError(f"{where} must be a list, got {value!r}")
        return tuple(_value(inner, each, f"{where}[{i}]") for i, each in enumerate(value))
    if kind.startswith("dict["):
        if not isinstance(value, Mapping):
            raise DatasetError(f"{where} must be a mapping, got {value!r}")
        return dict(value)
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str):
        return value
    names = {
        "float": "a finite number",
        "int": "an integer",
        "str": "text",
        "Latency": "a mapping",
        "Seen": "a mapping",
    }
    raise DatasetError(f"{where} must be {names.get(kind, kind)}, got {value!r}")


def _check_terms(contract: Contract, where: str) -> None:
    """Raise ``DatasetError`` if the values of terms do not fit each other."""
    _require(contract.rate > 0, where, "rate must be > 0", contract.rate)
    names = [term.name for term in contract.observations]
    for name in names:
        _require(names.count(name) == 1, f"{where}: observations", "each term must have a name of its own", name)
    for number, term in enumerate(contract.observations):
        at = f"{where}: observations[{number}] ({term.name})"
        _require(term.rate > 0, f"{at}.rate", "must be > 0", term.rate)
        _require(term.size > 0, f"{at}.shape", "must have sizes > 0", term.shape)
        _require(term.history == len(term.ages), f"{at}.ages", f"must have {term.history} numbers", term.ages)
        _require(min(term.ages, default=-1.0) >= 0, f"{at}.ages", "must be >= 0", term.ages)
        n_noise = term.size if term.input == VECTOR else 0
        _require(len(term.noise) == n_noise, f"{at}.noise", f"must have {n_noise} numbers", term.noise)
        _require(len(term.names) in (0, term.size), f"{at}.names", f"must have {term.size} names", term.names)
        _require(term.clip is None or len(term.clip) == 2, f"{at}.clip", "must be (min, max)", term.clip)
        _require(
            isinstance(term.unit, str) or len(term.unit) == term.size, f"{at}.unit", "must be one per value", term.unit
        )
        if term.source == "sensor":
            for key in ("topic", "message", "field"):
                _require(bool(getattr(term, key)), f"{at}.{key}", "must not be empty", "")
        if term.seen is not None:
            for key in ("min", "max", "mean", "std"):
                found: Sequence[float] = getattr(term.seen, key)
                _require(len(found) == term.size, f"{at}.seen.{key}", f"must have {term.size} numbers", found)
    for number, action in enumerate(contract.actions):
        at = f"{where}: actions[{number}] ({action.name})"
        for key in ("scale", "offset", "min", "max", "default_pose", "actuators"):
            values = getattr(action, key)
            fits = not values or len(values) == len(action.names)
            _require(fits, f"{at}.{key}", f"must have {len(action.names)} values", values)
        _require(action.rate > 0, f"{at}.rate", "must be > 0", action.rate)


def _require(holds: bool, where: str, rule: str, value: object) -> None:
    if not holds:
        raise DatasetError(f"{where}: {rule}, got {value!r}")
