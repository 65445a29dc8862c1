"""``PartialForward``: the forward pass of the few envs that restart, in a small batch of their own.

MuJoCo Warp computes all envs together. In training, about 1% of them restart in every step, and a forward pass of
all would cost as much as a substep. Here the states of the restarting envs are gathered into data with few rows,
computed there, and what follows from them is scattered back.

Only what a forward pass leaves for sensors and users is scattered: a step computes everything else anew from the state.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

from sensorium.worlds import partial_kernels as kernels
from sensorium.worlds._mujoco_warp import fields_per_env
from sensorium.worlds.model_fields import STATE

_CONTACT = tuple(kernels.CONTACT_FIELDS)


class PartialForward:
    """Restarts up to ``n_rows`` envs in a batch of their own.

    All calls only launch work on the current device, so that a CUDA graph can capture them.

    Args:
        model: the compiled model.
        m: MuJoCo Warp's model. Fields that differ per env must not change their arrays afterwards.
        d: MuJoCo Warp's data of all envs.
        n_rows: envs that fit into the batch.
        nconmax: contacts per env.
        njmax: constraint rows per env.

    Attributes:
        any: 1 if some env is selected, (1,) int32.
        few: 1 if some are, and they fit, (1,) int32.
        many: 1 if they do not fit, (1,) int32.
    """

    def __init__(self, model: mujoco.MjModel, m: mjw.Model, d: mjw.Data, n_rows: int, nconmax: int, njmax: int) -> None:
        self._all, self._rows = d, mjw.make_data(model, nworld=n_rows, nconmax=nconmax, njmax=njmax)
        self._n_rows = n_rows
        self._count = wp.zeros(1, dtype=int)
        self._ids = wp.zeros(n_rows, dtype=wp.int64)
        self.any, self.few, self.many = (wp.zeros(1, dtype=int) for _ in range(3))
        self._n_free, self._n_taken = (wp.zeros(1, dtype=int) for _ in range(2))
        self._free = wp.zeros(d.naconmax, dtype=int)
        self._n_contacts, self._contact_env = wp.zeros_like(d.nacon), wp.zeros_like(d.contact.worldid)
        self._m = copy.copy(m)
        self._m.opt = copy.copy(m.opt)
        state = [_pair(d, self._rows, name) for name in STATE if _has_rows(d, name, d.nworld)]
        for full, small in ((m, self._m), (m.opt, self._m.opt)):
            state += self._rows_of_fields(full, small)
        self._gathered = _Rows(state, self._ids)
        names = [name for name in vars(d) if _has_rows(d, name, d.nworld) and _has_rows(self._rows, name, n_rows)]
        results = [_pair(d, self._rows, name) for name in names if name != "overflow"]
        self._scattered = _Rows([*results, _pair(d.efc, self._rows.efc, "force")], self._ids)

    def _rows_of_fields(self, full: object, small: object) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Give the small model rows of its own for the fields that differ per env."""
        pairs = []
        for name in fields_per_env(full):
            array = getattr(full, name)
            if array.shape[0] == self._all.nworld and array.size:
                one = wp.to_torch(array)
                rows = wp.from_torch(one[: self._n_rows].clone(), dtype=array.dtype)
                setattr(small, name, rows)
                pairs.append((one, wp.to_torch(rows)))
        return pairs

    def select(self, mask: wp.array) -> None:
        """Choose the envs that restart.

        Args:
            mask: (B,) bool.
        """
        self._count.zero_()
        wp.launch(kernels.list_envs, dim=self._all.nworld, inputs=[mask], outputs=[self._count, self._ids])
        flags = [self.any, self.few, self.many]
        wp.launch(kernels.fill_up, dim=self._n_rows, inputs=[self._count], outputs=[self._ids, *flags])

    def keep(self) -> None:
        """Save which env each contact belongs to, before ``mjw.reset_data`` assigns those of reset envs to env 0."""
        wp.copy(self._n_contacts, self._all.nacon)
        wp.copy(self._contact_env, self._all.contact.worldid)

    def run(self, mask: wp.array) -> None:
        """Compute the forward pass of the selected envs, if they are few, and write what follows from their states.

        :meth:`keep` must have run before.

        Args:
            mask: (B,) bool, as selected.
        """
        self._gathered.copy(gather=True)
        mjw.forward(self._m, self._rows)
        self._scattered.copy(gather=False)
        self._replace_contacts(mask)

    def _replace_contacts(self, mask: wp.array) -> None:
        """Replace the contacts of the selected envs in the list of those of all envs."""
        d, rows = self._all, self._rows
        self._n_free.zero_()
        self._n_taken.zero_()
        free = [self._n_free, self._free]
        wp.launch(
            kernels.remove_contacts,
            dim=d.naconmax,
            inputs=[mask, self._n_contacts, self._contact_env],
            outputs=[d.nacon, d.contact.worldid, d.contact.dist, d.contact.type, d.contact.efc_address, *free],
        )
        old = [getattr(rows.contact, name) for name in _CONTACT]
        new = [getattr(d.contact, name) for name in _CONTACT]
        wp.launch(
            kernels.append_contacts,
            dim=rows.naconmax,
            inputs=[self._count, self._ids, rows.nacon, rows.ncollision, d.naconmax, *free, *old],
            outputs=[self._n_taken, d.nacon, *new],
        )


class _Rows:
    """Copies the rows of the selected envs, of many fields in one launch.

    Args:
        pairs: each field with a row per env, and with a row per selected env.
        ids: the selected envs.
    """

    def __init__(self, pairs: list[tuple[torch.Tensor, torch.Tensor]], ids: wp.array) -> None:
        self._ids, self._index = ids, wp.to_torch(ids)
        self._strided = [pair for pair in pairs if not all(_is_words(tensor) for tensor in pair)]
        self._pairs = [pair for pair in pairs if all(_is_words(tensor) for tensor in pair)]  # keeps the memory
        widths = [rows[0].numel() * rows.element_size() // 4 for _, rows in self._pairs]
        self._n_words = sum(widths)
        numbers = np.repeat(np.arange(len(widths)), widths), np.concatenate([np.arange(n) for n in [0, *widths]])
        self._where = [wp.array(each.astype(np.int32), dtype=int) for each in (*numbers, np.array(widths))]
        for side in zip(*self._pairs, strict=True):
            self._where.append(wp.array([tensor.data_ptr() for tensor in side], dtype=wp.uint64))

    def copy(self, gather: bool) -> None:
        """Copy from the fields of all envs to the rows, or back."""
        if self._pairs:
            shape = (self._ids.shape[0], self._n_words)
            wp.launch(kernels.copy_rows, dim=shape, inputs=[*self._where, self._ids, gather])
        for full, rows in self._strided:
            if gather:
                torch.index_select(full, 0, self._index, out=rows)
            else:
                full.index_copy_(0, self._index, rows)


def _is_words(tensor: torch.Tensor) -> bool:
    """Return whether the rows of a tensor lie one after another, in whole words of 32 bits."""
    return tensor.is_contiguous() and tensor[0].numel() * tensor.element_size() % 4 == 0


def _has_rows(owner: object, name: str, count: int) -> bool:
    array = getattr(owner, name, None)
    return isinstance(array, wp.array) and array.size > 0 and array.shape[0] == count


def _pair(full: object, small: object, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    return wp.to_torch(getattr(full, name)), wp.to_torch(getattr(small, name))
