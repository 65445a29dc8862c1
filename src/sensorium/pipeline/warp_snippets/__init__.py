"""The bodies of the Warp kernels, in C++: ``formula.py``, with its constants, for every device.

They use plain pointers instead of Warp's strided arrays, and several envs per thread where it matters. Otherwise
looking up the properties of a column and computing addresses would limit the fused step, not memory. Names in the
snippets: ``k`` is the block, ``v`` its values, ``r`` its return storage (see ``warp_kernels.py``), ``T`` the type of
the values, c a column, b an env.

The package exports the random numbers, which the kernels of other packages use as well.
"""

from sensorium.pipeline.warp_snippets.random import NORMALS, THREEFRY

__all__ = ["NORMALS", "THREEFRY"]
