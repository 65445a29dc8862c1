"""``HookResults``: checks of what the hooks of a tensor task return, so that a wrong result names the hook.

The checks read shapes, types and devices, never values: they do not wait for a GPU, and a captured graph does not
contain them. From the second call on they take about 0.3 us per tensor. An exception that a hook raises passes through
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch

from sensorium.deploy.contract import ActionTerm
from sensorium.errors import OptionError
from sensorium.suites.observation import PRIVILEGED
from sensorium.tasks.hook_results import described
from sensorium.tasks.tensor.episode_log import LOGGED, REASON

Shapes = dict[str, torch.Size]
"""Name -> shape of a tensor."""


class HookResults:
    """Checks that hooks return tensors by name, of B rows, and the same names and shapes in each call.

    Args:
        task: the task, for messages.
        n_envs: number of envs, B.
        device: device of the tensors.
    """

    def __init__(self, task: object, n_envs: int, device: torch.device) -> None:
        self._task, self._n_envs = type(task).__name__, n_envs
        self._device = torch.zeros(0, device=device).device  # with its index: "cuda" is not equal to "cuda:0"
        self._shapes: dict[str, Shapes] = {}

    def check(self, hook: str, value: object, per_env: bool = True) -> Mapping[str, torch.Tensor]:
        """Return what a hook returned, in the order of the first call.

        Args:
            hook: name of the hook.
            value: what it returned.
            per_env: whether its tensors are (B,); otherwise (B, ...).

        Raises:
            OptionError: it is no mapping of names to such tensors, differs from the first call, has tensors of
                ``failures`` that are not boolean, or names of observations that begin with "privileged/".
        """
        known = self._shapes.get(hook)
        if known is None:
            known = self._checked(hook, value, per_env)
            self._check_names(hook, known)
            self._shapes[hook] = known
        elif not _fits(value, known):
            found = self._checked(hook, value, per_env)
            if found.keys() != known.keys():
                raise self._wrong(hook, f"the same names in each call, first {list(known)}", f"the names {list(found)}")
            for name, shape in known.items():
                if found[name] != shape:
                    got = f"shape {tuple(found[name])}"
                    raise self._wrong(hook, f"the same shapes in each call, {tuple(shape)} for {name!r}", got)
        given = cast(Mapping[str, torch.Tensor], value)
        return given if list(given) == list(known) else {name: given[name] for name in known}

    def check_limits(self, value: object) -> torch.Tensor:
        """Return what ``action_limits`` returned, (n, 2) float32 on the CPU."""
        wanted = "the bounds of the action, a tensor of numbers of shape (n, 2)"
        if not isinstance(value, torch.Tensor) or value.ndim != 2 or value.shape[1] != 2 or value.is_complex():
            raise self._wrong("action_limits", wanted, described(value))
        limits = value.detach().cpu().float()
        if not len(limits) or not bool((limits[:, 0] <= limits[:, 1]).all()):  # also of NaN
            raise self._wrong("action_limits", f"{wanted}, the lower one first", str(limits.tolist()))
        return limits

    def _checked(self, hook: str, value: object, per_env: bool) -> Shapes:
        """Return the names and shapes of what a hook returned."""
        shape = f"{(self._n_envs,)}" if per_env else f"({self._n_envs}, ...)"
        wanted = f"a dict of names to tensors of shape {shape} on {self._device}"
        if not isinstance(value, Mapping) or (hook == "rewards" and not value):
            raise self._wrong(hook, wanted, described(value))
        for name, tensor in value.items():
            if not isinstance(name, str):
                raise self._wrong(hook, wanted, f"the name {name!r}")
            fits = isinstance(tensor, torch.Tensor) and not tensor.is_nested and tensor.layout == torch.strided
            if not fits or tensor.is_complex() or tensor.is_quantized or tensor.device != self._device:
                place = f" on {tensor.device}" if isinstance(tensor, torch.Tensor) else ""
                parts = getattr(tensor, "_fields", ())  # a reading of several parts
                fix = f"; return its parts, such as {name + '_' + parts[0]!r}: reading.{parts[0]}" if parts else ""
                got = type(tensor).__name__ if parts else described(tensor)
                raise self._wrong(hook, wanted, f"{got}{place} for {name!r}{fix}")
            if tensor.shape[:1] != (self._n_envs,) or (per_env and tensor.ndim != 1):
                raise self._wrong(hook, wanted, f"{described(tensor)} for {name!r}")
            if hook == "failures" and tensor.dtype != torch.bool:
                got = f"dtype {tensor.dtype} for {name!r}; return a comparison, such as height < 0.2"
                raise self._wrong(hook, "tensors of dtype torch.bool", got)
            if per_env or not name.startswith(PRIVILEGED):
                continue
            own = f"{name.removeprefix(PRIVILEGED)!r}"
            fix = (
                f"return it as {own} in observe_privileged"
                if hook == "observe"
                else f"name it {own}: it gets the prefix"
            )
            raise self._wrong(hook, f"names that do not begin with {PRIVILEGED!r}", f"{name!r}; {fix}")
        return {name: tensor.shape for name, tensor in value.items()}

    def _check_names(self, hook: str, names: Shapes) -> None:
        """Raise OptionError if a value would replace another one in the log of the episodes."""
        if hook not in ("rewards", "metrics"):
            return
        terms = self._shapes.get("rewards", {}) if hook == "metrics" else {}
        for name in names:
            if name in terms:
                raise self._wrong(hook, "names that no term of rewards() has", f"{name!r}; rename it")
            if name in LOGGED or name.startswith(REASON):
                raise self._wrong(
                    hook, f"names that the log does not use, as {', '.join(LOGGED)}", f"{name!r}; rename it"
                )

    def _wrong(self, hook: str, wanted: str, got: str) -> OptionError:
        return OptionError(f"{self._task}.{hook} must return {wanted}; got {got}")


def _fits(value: object, known: Shapes) -> bool:
    """Return whether a result has the names and shapes of an earlier one."""
    if type(value) is not dict or value.keys() != known.keys():
        return False
    for name, tensor in value.items():  # noqa: SIM110  # all() would make a generator
        if type(tensor) is not torch.Tensor or tensor.shape != known[name]:
            return False
    return True


def checked_terms(task: object, value: object) -> Sequence[ActionTerm] | None:
    """Return what ``action_terms`` returned.

    Raises:
        OptionError: it is neither None nor a sequence of terms.
    """
    fits = isinstance(value, Sequence) and all(isinstance(term, ActionTerm) for term in value)
    if value is not None and not fits:
        raise OptionError(
            f"{type(task).__name__}.action_terms must return a sequence of ActionTerm, or None; got {described(value)}"
        )
    return value  # type: ignore[return-value]
