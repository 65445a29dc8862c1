"""Lanes: neighbouring threads of a Warp kernel that work on one sensor in one env.

On the GPU they are the 32 threads of a warp, which exchange values without memory. On Warp's CPU device there is one
lane. The last dimension of a launch is the lanes, and every lane must reach every exchange: branches around one may
depend only on values that all lanes share.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})


def lanes_on(device: torch.device) -> int:
    """Return the number of lanes on a device."""
    return 32 if device.type == "cuda" else 1


@wp.func_native("""
#if defined(__CUDA_ARCH__)
for (int apart = 16; apart > 0; apart >>= 1) x += __shfl_xor_sync(0xffffffffu, x, apart);
#endif
return x;
""")
def lane_sum(x: wp.float64) -> wp.float64:
    """Return the sum over all lanes, with the same bits in each."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __popc(__ballot_sync(0xffffffffu, flag));
#else
return flag ? 1 : 0;
#endif
""")
def lane_count(flag: wp.bool) -> wp.int32:
    """Return in how many lanes ``flag`` is set."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __popc(__ballot_sync(0xffffffffu, flag) & ((1u << lane) - 1u));
#else
return 0;
#endif
""")
def lanes_before(flag: wp.bool, lane: wp.int32) -> wp.int32:
    """Return in how many of the lanes before ``lane`` the ``flag`` is set."""


@wp.func
def lane_sum_vector(v: wp.vec3d) -> wp.vec3d:
    """Return the sum over all lanes of a vector."""
    return wp.vec3d(lane_sum(v[0]), lane_sum(v[1]), lane_sum(v[2]))


@wp.func_native("""
#if defined(__CUDA_ARCH__)
for (int apart = 16; apart > 0; apart >>= 1) {
    double other = __shfl_xor_sync(0xffffffffu, x, apart);
    x = other > x ? other : x;
}
#endif
return x;
""")
def lane_max(x: wp.float64) -> wp.float64:
    """Return the maximum over all lanes."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__syncwarp();
#endif
""")
def lanes_sync():
    """Wait for all lanes: what they wrote to memory before, all of them read from there on."""
