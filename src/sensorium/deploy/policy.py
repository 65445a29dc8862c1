"""``Policy``: a policy file that runs on the messages of a robot."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Literal, Protocol

import numpy as np

from sensorium._arguments import checked
from sensorium.deploy.contract import VECTOR, Contract
from sensorium.deploy.inputs import DecisionInput, SensorInput
from sensorium.deploy.messages import Message, capture_time
from sensorium.deploy.onnx_file import read_contract
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten

_EARLY = 0.25
"""Fraction of a period by which a call may come early and still decide, for timers that jitter."""
_FUTURE = 1e-3
"""Seconds by which a message may be captured after its arrival: clocks of one computer differ by less."""
_NUMBERS = (float, int, np.floating, np.integer)
_MAX_TIME = sys.float_info.max


class _Session(Protocol):
    """What is used of ``onnxruntime.InferenceSession``."""

    def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return outputs for inputs."""


class Policy:
    """A policy file on a robot: messages in, commands out. Make one with :meth:`load`.

    All times are seconds of one clock, for example that of the ROS node. A message is a mapping or an object with the
    fields of its ROS type. Its header stamp is the time of capture.

    Attributes:
        contract: what the policy expects and means.
        rate: decisions per second, Hz.
        topics: topics on the robot -> type of their messages.
        command_names: terms that :meth:`act` needs as ``commands``.
        action_names: names of the values of a command, in order.

    Example:
        >>> policy = Policy.load("policy.onnx", topics={"/robot_imu": "/imu/data"})
        >>> policy.feed("/imu/data", message, arrival=now)
        >>> command = policy.act(now)
    """

    @checked
    def __init__(
        self,
        contract: Contract,
        session: _Session,
        topics: Mapping[str, str] | None = None,
        stale_after: float | Mapping[str, float] | None = None,
        stamps: Literal["header", "arrival"] = "header",
    ) -> None:
        names = dict(topics or {})
        for name in names:
            if name not in contract.topics:
                hint = did_you_mean(name, contract.topics) or f"; it has {shorten(contract.topics)}"
                raise NameNotFoundError(f"topics: the policy has no topic {name!r}{hint}")
        if stamps not in ("header", "arrival"):
            raise OptionError(f"stamps must be 'header' or 'arrival', got {stamps!r}")
        self.contract, self.rate = contract, contract.rate
        self.topics: dict[str, str] = {}
        for topic, message in contract.topics.items():
            own = names.get(topic, topic)
            known = self.topics.setdefault(own, message)
            if known != message:
                raise OptionError(f"topics: {own!r} stands for topics of different messages, {known} and {message}")
        self._session, self._stamps, self._period = session, stamps, 1.0 / contract.rate
        limits = _limits(contract, stale_after)
        self._sensors: dict[str, SensorInput] = {}
        self._given: dict[str, DecisionInput] = {}
        self._by_topic: dict[str, list[SensorInput]] = {topic: [] for topic in self.topics}
        self._vector = np.zeros((1, contract.n_observations), np.float32)
        self._parts: dict[str, np.ndarray] = {}
        start = 0
        for term in contract.observations:
            if term.source == "sensor":
                made = SensorInput(term, names.get(term.topic, term.topic), limits.get(term.name))
                self._sensors[term.name] = made
                self._by_topic[made.topic].append(made)
            else:
                self._given[term.name] = DecisionInput(term, contract.rate)
            if term.input == VECTOR:
                stop = start + term.size * term.history
                self._parts[term.name] = self._vector[0, start:stop].reshape(term.history, term.size)
                start = stop
        self.command_names = [term.name for term in contract.observations if term.source == "command"]
        self.action_names = [name for term in contract.actions for name in term.names]
        self._action = self._command = np.zeros(contract.n_actions, np.float32)
        self._state = np.zeros((1, contract.state), np.float32)
        self._next: float | None = None
        self._outputs = ["action", "command", *(["next_state"] if contract.state else [])]

    @classmethod
    @checked
    def load(
        cls,
        path: str | Path,
        *,
        topics: Mapping[str, str] | None = None,
        stale_after: float | Mapping[str, float] | None = None,
        stamps: Literal["header", "arrival"] = "header",
    ) -> Policy:
        """Return the policy of a file that ``sensorium export-policy`` wrote.

        Args:
            path: the ONNX file. The contract is inside it.
            topics: topic of the contract -> topic on the robot, where they differ.
            stale_after: age at which inputs are stale, s; for all terms, or by name of the term. Default: the largest
                latency in training and 2.5 sample periods.
            stamps: "header" if the stamps of messages are of the same clock as arrival times; "arrival" to use the
                time of arrival instead.

        Raises:
            DatasetError: the file is damaged, was changed, or is of another version.
            NameNotFoundError: ``topics`` or ``stale_after`` names something that the policy does not have.
            OptionError: onnxruntime is not installed, or ``topics`` maps topics of different messages to one.
        """
        contract = read_contract(path)
        try:
            runtime: ModuleType = importlib.import_module("onnxruntime")
        except ImportError:
            raise OptionError("policies run with onnxruntime: pip install 'sensorium[deploy]'") from None
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # threads cost more than such networks take
        try:
            session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises classes of its own that derive from Exception only
            raise DatasetError(f"cannot load {path}: {error}") from None
        _check_network(session, contract, path)
        return cls(contract, session, topics, stale_after, stamps)

    # -- messages -----------------------------------------------------------------------------------------------------

    def feed(self, topic: str, message: Message, arrival: float) -> None:
        """Take a message.

        A reading with NaN or infinity, or an orientation that is no unit quaternion, counts as lost: :meth:`act`
        refuses once the last valid one is stale. A JointState of other joints alone, from another publisher, is
        ignored.

        Args:
            topic: one of :attr:`topics`.
            message: a mapping or an object with the fields of the ROS message.
            arrival: time of its arrival, s. It must not be before that of the message before it.

        Raises:
            NameNotFoundError: the policy does not need the topic, or the message lacks a field or joint.
            OptionError: a field has another shape, or a time is not possible.
        """
        try:
            inputs = self._by_topic.get(topic)
        except TypeError:  # it is not hashable
            inputs = None
        if inputs is None:
            hint = did_you_mean(topic, self.topics) or f"; it has {shorten(self.topics)}"
            raise NameNotFoundError(f"the policy has no topic {topic!r}{hint}")
        if not _is_time(arrival):
            raise OptionError(f"arrival must be a finite time in s, got {arrival!r:.80} for a message of {topic!r}")
        try:
            stamp = capture_time(message) if self._stamps == "header" else None
        except (NameNotFoundError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor
            raise OptionError(f"a message of {topic!r} has no stamp in its header that can be read: {error}") from None
        capture = arrival if stamp is None else stamp
        if not _is_time(capture):
            raise OptionError(f"the stamp of a message of {topic!r} must be a finite time in s, got {capture!r:.80}")
        if capture > arrival + _FUTURE:
            raise OptionError(
                f"a message of {topic!r} was captured at {capture:.6f} s, after it arrived at {arrival:.6f} s: the "
                "clocks differ; synchronise them, or load the policy with stamps='arrival'"
            )
        read = [(each, each.read(message, arrival)) for each in inputs]  # all of them, before any is added
        for each, values in read:
            if values is not None:
                each.add(values, capture, arrival)

    def ages(self, now: float) -> dict[str, float | None]:
        """Return the age of the newest sample of each term from a sensor, s; None where none has arrived."""
        _check_now(now)
        return {name: each.age(now) for name, each in self._sensors.items()}

    @property
    def is_ready(self) -> bool:
        """Whether each term of a sensor has had a sample; messages of other joints and invalid ones do not count."""
        return all(each.has_sample for each in self._sensors.values())

    # -- decisions ----------------------------------------------------------------------------------------------------

    def act(self, now: float, commands: Mapping[str, object] | None = None) -> np.ndarray:
        """Return the command (m,) for the time ``now``, in the units and the order of the contract's actions.

        Call it at :attr:`rate`. Calls in between return the command of the last decision.

        Args:
            now: current time, s.
            commands: values of the terms in :attr:`command_names`.

        Raises:
            StaleInputError: an input is missing or too old. Names the term, the topic, its age and the limit.
            NameNotFoundError: the policy has no command of a name in ``commands``.
            OptionError: a command is missing or has another shape, a time is not possible, or the network returns a
                value that is not finite.
        """
        _check_now(now)
        if self._next is not None and now < self._next - _EARLY * self._period:
            if now < self._next - 2 * self._period:
                raise OptionError(
                    f"act() was called at {now:.6f} s, before the decision at {self._next:.6f} s; call reset()"
                )
            return self._command.copy()
        inputs = {each.term.input: each.image(now) for name, each in self._sensors.items() if name not in self._parts}
        self.observe(now, commands)
        if self._vector.size:
            inputs[VECTOR] = self._vector
        if self.contract.state:
            inputs["state"] = self._state
        results = self._session.run(self._outputs, inputs)
        if not np.isfinite(results[1]).all():
            bad = [name for name, part in self._parts.items() if not np.isfinite(part).all()]
            raise OptionError(
                f"the network returned {results[1][0]}; terms that are not finite: {shorten(bad) or 'none'}"
            )
        self._action, self._command = results[0][0], results[1][0]
        if self.contract.state:
            self._state = results[2]
        on_time = self._next is not None and now <= self._next + self._period
        self._next = (self._next if on_time and self._next is not None else now) + self._period
        return self._command.copy()

    def observe(self, now: float, commands: Mapping[str, object] | None = None) -> np.ndarray:
        """Return the network's input (k,) for the time ``now``; arguments and errors as of :meth:`act`.

        It counts as a decision in the history of commands and actions: :meth:`act` calls it itself.
        """
        _check_now(now)
        if commands is not None and not isinstance(commands, Mapping):
            raise OptionError(f"commands must be a mapping of names to values, got {commands!r:.80}")
        given = dict(commands) if commands else {}
        for name in given:
            if name not in self.command_names:
                hint = did_you_mean(name, self.command_names) or f"; it has {shorten(self.command_names) or 'none'}"
                raise NameNotFoundError(f"commands: the policy has no command {name!r}{hint}")
        for name in self.command_names:
            if name not in given:
                raise OptionError(f"commands: {name!r} is missing; pass commands={{{name!r}: ...}}")
        values = {name: each.read(given.get(name, self._action)) for name, each in self._given.items()}
        for name, part in self._parts.items():
            if name in self._sensors:
                self._sensors[name].fill(now, part)
        for name, each in self._given.items():  # last, so that a call that failed has not counted as a decision
            each.fill(values[name], self._parts[name])
        return self._vector[0].copy()

    def reset(self) -> None:
        """Forget all messages, actions and the memory of the network: the next decision begins an episode."""
        for sensor in self._sensors.values():
            sensor.clear()
        for value in self._given.values():
            value.clear()
        self._action = self._command = np.zeros(self.contract.n_actions, np.float32)
        self._state = np.zeros((1, self.contract.state), np.float32)
        self._next = None

    def __repr__(self) -> str:
        return f"<Policy {self.contract.task!r} of {self.contract.robot!r} at {self.rate:g} Hz>"


def _is_time(value: object) -> bool:
    """Return whether a value is a finite number; a comparison also refuses NaN, and integers that no float holds."""
    return isinstance(value, _NUMBERS) and bool(-_MAX_TIME <= value <= _MAX_TIME)


def _check_now(now: object) -> None:
    if not _is_time(now):
        raise OptionError(f"now must be a finite time in s, got {now!r:.80}")


def _limits(contract: Contract, given: float | Mapping[str, float] | None) -> dict[str, float]:
    """Return the name of a term -> age at which it is stale, where it is not the default."""
    names = [term.name for term in contract.observations if term.source == "sensor"]
    limits = dict(given) if isinstance(given, Mapping) else {} if given is None else dict.fromkeys(names, given)
    for name, limit in limits.items():
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {shorten(names)}"
            raise NameNotFoundError(f"stale_after: the policy has no term {name!r} of a sensor{hint}")
        if isinstance(limit, bool | str) or not isinstance(limit, int | float) or not limit > 0:
            raise OptionError(f"stale_after: the limit of {name!r} must be > 0 s, got {limit!r}")
    return limits


def _check_network(session: object, contract: Contract, path: str | Path) -> None:
    """Raise ``DatasetError`` if inputs or outputs of the network have other sizes than the contract says."""
    inputs, outputs = (
        {each.name: list(each.shape) for each in getattr(session, call)()} for call in ("get_inputs", "get_outputs")
    )
    wanted = {VECTOR: [contract.n_observations]} if contract.n_observations else {}
    wanted |= {term.input: list(term.shape) for term in contract.observations if term.input != VECTOR}
    wanted |= {"state": [contract.state]} if contract.state else {}
    for name, shape in wanted.items():
        if name not in inputs or inputs[name][1:] != shape:
            raise DatasetError(
                f"{path}: the network's input {name!r} must have shape (B, {', '.join(map(str, shape))}) by the "
                f"contract, got {inputs.get(name)}"
            )
    for name in ("action", "command"):
        if name not in outputs or outputs[name][1:] != [contract.n_actions]:
            raise DatasetError(
                f"{path}: the network's output {name!r} must have shape (B, {contract.n_actions}) by the contract, got "
                f"{outputs.get(name)}"
            )
