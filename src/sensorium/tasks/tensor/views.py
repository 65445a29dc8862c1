"""``TensorViews``: a tensor task in the interfaces of Gymnasium and of learners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from sensorium._arguments import checked_flag
from sensorium.errors import OptionError
from sensorium.tasks.tensor.hooks import ConfigT
from sensorium.tasks.tensor.observing import ObservingTask

if TYPE_CHECKING:
    from sensorium.tasks.sb3 import TaskVecEnv
    from sensorium.tasks.tensor.gym import TensorGymView, TensorVectorView
    from sensorium.tasks.tensor.rsl_rl import RslRlEnv
    from sensorium.tasks.tensor.task import TensorTask


class TensorViews(ObservingTask[ConfigT]):
    """The views of a tensor task. Their packages are imported at the first use."""

    @property
    def _task(self) -> TensorTask[Any]:
        return cast("TensorTask[Any]", self)

    @overload
    def as_gymnasium(
        self,
        vector: Literal[True] = True,
        *,
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> TensorVectorView: ...
    @overload
    def as_gymnasium(
        self,
        vector: Literal[False],
        *,
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
    ) -> TensorGymView: ...
    def as_gymnasium(
        self,
        vector: bool = True,
        *,
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> TensorVectorView | TensorGymView:
        """Return the task as a ``gymnasium.vector.VectorEnv``, or a task of one env as a ``gymnasium.Env``.

        Args:
            vector: False for a ``gymnasium.Env``.
            keys, flatten, render_mode, output: see :class:`sensorium.tasks.tensor.gym.TensorVectorView`; ``output``
                only for a vector.

        Raises:
            OptionError: an argument cannot be used.
            NameNotFoundError: a key is no observation of the task.

        Example:
            >>> envs = sn.tasks.make("walk", n_envs=16).as_gymnasium()
            >>> observation, info = envs.reset(seed=0)
        """
        from sensorium.tasks.tensor.gym import TensorGymView, TensorVectorView

        self._check_alone()
        if checked_flag("vector", vector):
            return TensorVectorView(self._task, keys, flatten, render_mode, output)
        if output != "numpy":
            raise OptionError(f"output is an option of vector views, got output={output!r} with vector=False")
        return TensorGymView(self._task, keys, flatten, render_mode)

    def as_rsl_rl(self) -> RslRlEnv:
        """Return the task as a ``VecEnv`` of rsl_rl, with the observation groups "actor" and "critic"."""
        from sensorium.tasks.tensor.rsl_rl import RslRlEnv

        self._check_alone()
        return RslRlEnv(self._task)

    def as_sb3(self, keys: Sequence[str] | None = None, flatten: bool = True) -> TaskVecEnv:
        """Return the task as a ``VecEnv`` of Stable-Baselines3 with B envs, which are reset when they are done.

        Args:
            keys: uuids to observe, in order; see :meth:`as_gymnasium`. Default: what the policy observes.
            flatten: True for one float32 array per env ("MlpPolicy"), without ``keys`` that of the actor with its
                ``history``; False for a dict with one array per uuid ("MultiInputPolicy", also for images).

        Raises:
            OptionError: Stable-Baselines3 is not installed, or the keys cannot be used, or the policy observes images
                and ``flatten`` is True.
            NameNotFoundError: a key is no observation of the task.

        Example:
            >>> PPO("MlpPolicy", sn.tasks.make("walk", n_envs=16).as_sb3()).learn(100_000)
        """
        self._check_alone()
        if checked_flag("flatten", flatten) and keys is None and self.config.observe_cameras:
            raise OptionError(
                "flatten: the policy observes images, which one array cannot hold: use as_sb3(flatten=False) with "
                '"MultiInputPolicy", or as_rsl_rl()'
            )
        try:
            from sensorium.tasks.sb3 import TaskVecEnv
        except ImportError:
            raise OptionError("as_sb3 needs Stable-Baselines3: pip install 'sensorium[train]'") from None
        return TaskVecEnv(self._task, keys, flatten)
