"""``Log`` and ``TopicLog``: messages as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sensorium._arguments import checked, checked_index, checked_rows
from sensorium.errors import DatasetError, OptionError, did_you_mean, shorten
from sensorium.logs.message_arrays import column, text_column

_AXES = ("x", "y", "z")
_NAMESPACE = re.compile(r"(/env_\d+)/")


class TopicLog:
    """The messages of one topic, in the order of their arrival.

    Values are arrays by the path of their field: ``imu["angular_velocity"]`` is (n, 3), with the components x, y, z;
    ``pose["pose.orientation"]`` is (n, 4) in the order (w, x, y, z); ``joints["position"]`` is (n, joints).

    Attributes:
        name: the topic.
        message: type of the messages, e.g. "sensor_msgs/msg/Imu".
        capture: time at which each message was captured: the stamp in its header, s, (n,) float64. Messages without a
            header have the time of their publication.
        arrival: time at which each message was logged, s, (n,) float64.
        fields: path -> array; numbers only. Values whose length differs between messages are a list of arrays, and
            elements that some messages lack ("transforms.1...") are None in it.
        texts: path -> strings, (n,); None for messages that lack them.

    Raises:
        OptionError: the times, a field or a text do not have one row per message.
    """

    @checked
    def __init__(
        self,
        name: str,
        message: str,
        capture: np.ndarray,
        arrival: np.ndarray,
        fields: Mapping[str, np.ndarray | Sequence[np.ndarray]],
        texts: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.name, self.message = name, message
        self.capture, self.arrival = capture, arrival
        self.fields, self.texts = dict(fields), dict(texts or {})
        for what, times in (("capture", capture), ("arrival", arrival)):
            if times.dtype.kind not in "fiu" or times.ndim != 1 or len(times) != len(capture):
                raise OptionError(f"{name}: {what} must be one time per message, (n,) s, got {times!r:.80}")
        for path, values in (*self.fields.items(), *self.texts.items()):
            rows = values.shape[:1] if isinstance(values, np.ndarray) else _length(values)
            if rows != (len(self),):
                raise OptionError(
                    f"{name}: {path!r} must have one row for each of the {len(self)} messages, got {values!r:.80}"
                )

    def __len__(self) -> int:
        return len(self.arrival)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and (path in self.fields or f"{path}.x" in self.fields)

    @checked
    def __getitem__(self, path: str) -> Any:
        if path in self.fields:
            return self.fields[path]
        if path in self.texts:
            return self.texts[path]
        if f"{path}.x" in self.fields:
            axes = ("w", *_AXES) if f"{path}.w" in self.fields else _AXES
            return np.stack([_filled(self.fields[f"{path}.{axis}"]) for axis in axes], axis=1)
        known = [*self.fields, *self.texts]
        hint = did_you_mean(path, known) or f"; it has {shorten(known)}"
        raise OptionError(f"{self.name} ({self.message}) has no field {path!r}{hint}")

    @property
    def names(self) -> list[str]:
        """Names of the joints of JointState messages, in the order of the first message; [] for other messages."""
        return list(self._names_at(0)) if len(self) else []

    def _names_at(self, row: int) -> tuple[str, ...]:
        """Return the names of the joints of one message."""
        names = [self.texts[key][row] for key in self._name_keys]
        return tuple(str(name) for name in names if name is not None)

    @property
    def _name_keys(self) -> list[str]:
        keys = (key for key in self.texts if key.startswith("name."))
        return sorted(keys, key=lambda key: int(key.split(".")[1]))

    def split_joints(self) -> list[TopicLog]:
        """Return JointState messages by the joints that they have, each with its joints in one order.

        Several nodes may publish different joints on one topic, and a node may change the order. Columns of
        ``position`` then have no meaning by themselves. With one set of joints the result is one topic of the same
        name, with the order of the first message; otherwise the topics are named ``NAME/0``, ``NAME/1``, ... in the
        order of their first messages. Other messages are returned unchanged.

        Example:
            >>> log = log.with_topics(*log["/joint_states"].split_joints())
        """
        keys = self._name_keys
        is_fixed = all(
            self.texts[key].dtype != object and (self.texts[key] == self.texts[key][0]).all() for key in keys
        )
        if not keys or is_fixed:
            return [self]
        by_order: dict[tuple[str, ...], list[int]] = {}
        for row in range(len(self)):
            by_order.setdefault(self._names_at(row), []).append(row)
        by_joints: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for names in by_order:
            by_joints.setdefault(tuple(sorted(names)), []).append(names)
        found = []
        for number, orders in enumerate(by_joints.values()):
            rows = np.sort(np.concatenate([by_order[names] for names in orders]))
            name = self.name if len(by_joints) == 1 else f"{self.name}/{number}"
            found.append(self.take(rows)._ordered(name, orders[0]))
        return found

    def _ordered(self, name: str, names: tuple[str, ...]) -> TopicLog:
        """Return messages of the same joints with the joints in a given order."""
        order = np.array([[own.index(each) for each in names] for own in map(self._names_at, range(len(self)))])
        fields: dict[str, np.ndarray | Sequence[np.ndarray]] = dict(self.fields)
        for path in ("position", "velocity", "effort"):
            values = fields.get(path)
            if isinstance(values, np.ndarray) and values.shape == order.shape:
                fields[path] = np.take_along_axis(values, order, axis=1)
        texts = {key: values for key, values in self.texts.items() if key not in self._name_keys}
        texts |= {f"name.{i}": np.full(len(self), each) for i, each in enumerate(names)}
        return TopicLog(name, self.message, self.capture, self.arrival, fields, texts)

    @property
    def latency(self) -> np.ndarray:
        """Time from capture to arrival, s, (n,)."""
        return self.arrival - self.capture

    @property
    def rate(self) -> float:
        """Messages per second of capture time: the inverse of the median interval; 0 for fewer than 2 messages."""
        if len(self) < 2:
            return 0.0
        middle = float(np.median(np.diff(self.capture)))
        return 1.0 / middle if middle > 0 else 0.0

    def message_at(self, row: int) -> dict[str, Any]:
        """Return one message as a dict with the fields of its type, nested as in ROS.

        Raises:
            IndexRangeError: there is no such message.
        """
        row = checked_index(self.name, "message", row, len(self))
        found: dict[str, Any] = {}
        for path, values in (*self.fields.items(), *self.texts.items()):
            if values[row] is None:  # a sequence of this message is shorter than those of others
                continue
            *parents, last = path.split(".")
            place = found
            for each in parents:
                place = place.setdefault(each, {})
            place[last] = values[row]
        seconds, nanoseconds = divmod(round(float(self.capture[row]) * 1e9), 10**9)
        if self._name_keys:
            found.setdefault("name", {})
        if "header" in found:
            found["header"]["stamp"] = {"sec": seconds, "nanosec": nanoseconds}
        return cast("dict[str, Any]", _with_lists(found))

    def take(self, rows: np.ndarray | slice) -> TopicLog:
        """Return some of the messages: a slice, an index array or a mask.

        Raises:
            OptionError: ``rows`` is of another type.
            IndexRangeError: there is no such message.
        """
        index = np.arange(len(self))[checked_rows(self.name, "message", rows, len(self))]
        fields: dict[str, np.ndarray | Sequence[np.ndarray]] = {}
        for path, values in self.fields.items():
            rest = values[index] if isinstance(values, np.ndarray) else [values[i] for i in index]
            if isinstance(rest, np.ndarray) or not rest or any(row is not None for row in rest):
                fields[path] = rest if isinstance(rest, np.ndarray) else column(rest)
        texts = {path: values[index] for path, values in self.texts.items()}
        texts = {
            path: text_column(values.tolist()) if values.dtype == object else values
            for path, values in texts.items()
            if values.dtype != object or any(row is not None for row in values)
        }
        return TopicLog(self.name, self.message, self.capture[index], self.arrival[index], fields, texts)

    @checked
    def replace(
        self,
        *,
        capture: np.ndarray | None = None,
        arrival: np.ndarray | None = None,
        fields: Mapping[str, np.ndarray] | None = None,
        texts: Mapping[str, np.ndarray] | None = None,
    ) -> TopicLog:
        """Return a copy with other times or fields: ``topic.replace(capture=..., fields={"velocity": ...})``.

        Raises:
            OptionError: an array does not have one row per message.
        """
        times = (self.capture if capture is None else capture, self.arrival if arrival is None else arrival)
        merged = {**self.fields, **(fields or {})}
        return TopicLog(self.name, self.message, *times, merged, {**self.texts, **(texts or {})})

    def __repr__(self) -> str:
        return f"TopicLog({self.name!r}, {self.message!r}, {len(self)} messages, {self.rate:.4g} Hz)"


def _length(values: object) -> tuple[int, ...]:
    """Return the number of rows of a list of arrays, as a shape; () for what is no list."""
    return (len(values),) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else ()


def _check_texts(name: str, values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise OptionError(f"{name} must each be text, got {value!r:.80}")


def _filled(values: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """Return one number per message, NaN where a message lacks it."""
    return values if isinstance(values, np.ndarray) else np.array([np.nan if each is None else each for each in values])


def _with_lists(value: object) -> object:
    """Return nested dicts with those whose keys are numbers as lists."""
    if not isinstance(value, dict):
        return value
    nested = {key: _with_lists(each) for key, each in value.items()}
    return [nested[str(i)] for i in range(len(nested))] if all(map(str.isdigit, nested)) else nested


class Log(Mapping[str, TopicLog]):
    """A log: topic -> its messages.

    Attributes:
        source: the file.
        metadata: name -> its values, as the file states them.
        is_complete: whether the file ended as it should.
        undecodable: topic -> why its messages cannot be decoded. Such topics are not in the log; asking for one by name
            raises ``DatasetError``.

    Example:
        >>> log = sn.logs.read("real.mcap")
        >>> print(log)                                        # a table of topics
        >>> log["/imu"]["angular_velocity"], log["/imu"].capture
    """

    @checked
    def __init__(
        self,
        topics: Mapping[str, TopicLog],
        source: str = "",
        metadata: Mapping[str, Mapping[str, str]] | None = None,
        is_complete: bool = True,
        undecodable: Mapping[str, str] | None = None,
    ) -> None:
        self._topics = dict(topics)
        self.source, self.metadata, self.is_complete = source, dict(metadata or {}), is_complete
        self.undecodable = dict(undecodable or {})

    @checked
    def __getitem__(self, name: str) -> TopicLog:
        if name in self.undecodable:
            raise DatasetError(f"{self.source or 'the log'}, topic {name}: {self.undecodable[name]}")
        if name not in self._topics:
            hint = did_you_mean(name, self._topics) or f"; it has {shorten(self._topics)}"
            raise OptionError(f"{self.source or 'the log'} has no topic {name!r}{hint}")
        return self._topics[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def of(self, *messages: str) -> list[TopicLog]:
        """Return the topics with one of these types of messages, e.g. ``log.of("sensor_msgs/msg/Imu")``."""
        _check_texts("Log.of: messages", messages)
        return [topic for topic in self._topics.values() if topic.message in messages]

    def with_topics(self, *topics: TopicLog) -> Log:
        """Return a copy in which topics are replaced or added."""
        for topic in topics:
            if not isinstance(topic, TopicLog):
                raise OptionError(f"Log.with_topics: topics must be TopicLog, got {topic!r:.80}")
        changed = {**self._topics, **{topic.name: topic for topic in topics}}
        return self._of(changed)

    def without(self, *names: str) -> Log:
        """Return a copy without some topics."""
        _check_texts("Log.without: names", names)
        left = {name: topic for name, topic in self._topics.items() if name not in names}
        return self._of(left)

    def _of(self, topics: Mapping[str, TopicLog], undecodable: Mapping[str, str] | None = None) -> Log:
        """Return a log of other topics from the same file."""
        own = self.undecodable if undecodable is None else undecodable
        return Log(topics, self.source, self.metadata, self.is_complete, own)

    @checked
    def messages(
        self, topics: Iterable[str] | Mapping[str, object] | None = None
    ) -> Iterator[tuple[str, dict[str, Any], float]]:
        """Yield (topic, message, arrival in s) in the order of arrival: what :func:`sensorium.deploy.run_log` takes.

        Messages are dicts with the fields of their type; ``header.stamp`` is the time of capture.

        Args:
            topics: which topics; of a mapping, its keys. Default: all.

        Raises:
            OptionError: there is no such topic.

        Example:
            >>> run = run_log(policy, log.messages(policy.topics))
        """
        chosen = [self[name] for name in (self._topics if topics is None else topics)]
        arrivals = np.concatenate([np.zeros(0), *(topic.arrival for topic in chosen)])
        owners = np.repeat(np.arange(len(chosen)), [len(topic) for topic in chosen])
        rows = np.concatenate([np.zeros(0, int), *(np.arange(len(topic)) for topic in chosen)])
        for i in np.argsort(arrivals, kind="stable").tolist():
            topic = chosen[owners[i]]
            yield topic.name, topic.message_at(int(rows[i])), float(arrivals[i])

    @property
    def namespaces(self) -> list[str]:
        """Namespaces of a log of several envs, e.g. ["/env_0", "/env_1"]; [] for a log of one robot."""
        found = [_NAMESPACE.match(name) for name in self._topics]
        return list(dict.fromkeys(each[1] for each in found if each)) if all(found) else []

    @checked
    def in_namespace(self, namespace: str) -> Log:
        """Return the topics of one env of a log of several, with their names in a log of that env alone.

        Raises:
            OptionError: there is no such namespace.
        """
        if namespace not in self.namespaces:
            raise OptionError(
                f"{self.source or 'the log'} has no namespace {namespace!r}; it has {shorten(self.namespaces)}"
            )
        own = [each for name, each in self._topics.items() if name.startswith(f"{namespace}/")]
        names = [each.name.removeprefix(namespace) for each in own]
        topics = {
            name: TopicLog(name, each.message, each.capture, each.arrival, each.fields, each.texts)
            for name, each in zip(names, own, strict=True)
        }
        start = f"{namespace}/"
        lost = {name.removeprefix(namespace): why for name, why in self.undecodable.items() if name.startswith(start)}
        return self._of(topics, lost)

    @property
    def span(self) -> tuple[float, float]:
        """First and last arrival, s.

        Raises:
            DatasetError: the log has no messages.
        """
        times = [topic.arrival for topic in self._topics.values() if len(topic)]
        if not times:
            raise DatasetError(f"{self.source or 'the log'} has no messages")
        return min(float(each.min()) for each in times), max(float(each.max()) for each in times)

    def __str__(self) -> str:
        width = max([len("topic"), *map(len, self._topics), *map(len, self.undecodable)])
        lines = [f"{'topic':{width}}  {'message':32} {'count':>7} {'Hz':>8} {'latency ms':>11}"]
        for name, topic in self._topics.items():
            late = f"{np.median(topic.latency) * 1e3:.2f}" if len(topic) else ""
            lines.append(f"{name:{width}}  {topic.message:32} {len(topic):7d} {topic.rate:8.4g} {late:>11}")
        lines += [f"{name:{width}}  not decoded: {why}" for name, why in self.undecodable.items()]
        return "\n".join(lines)
