"""The imager's kernels in Warp, for the CPU and for the GPU; their bodies are the C++ of ``snippets.py``."""

import warp as wp

from sensorium.cameras.imager import snippets
from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_int, _bool, _u8, _f32 = (wp.array(dtype=t) for t in (wp.int32, wp.bool, wp.uint8, wp.float32))


@wp.struct
class Frame:
    """Sizes, tables and the figures of colour."""

    mask: _bool  # (B,) which envs are done
    step: _int  # (1,) steps since build
    intrinsics: _f32  # (B, 4) fx, fy, cx, cy of the source, from the centre of its first pixel
    map: _f32  # (1 or B, H, W, 3), see lens.make_map
    decode: _f32  # (256,) sRGB to linear light
    guess: _u8  # linear light, in steps, to sRGB or one less
    thresholds: _f32  # (256,) linear light at which the next sRGB value begins
    reciprocal: _f32  # of small numbers
    map_stride: int  # 0 where all envs have one map
    width: int
    height: int
    source_width: int
    source_height: int
    left: int
    top: int
    moved: int  # whether positions come from the map
    shaded: int  # whether vignettes come from the map
    noisy: int
    key0: wp.uint32
    key1: wp.uint32
    red: float  # how much further out red comes from than green
    blue: float
    exposure: float
    electrons: float  # of linear light 1
    read_noise: float
    per_electron: float
    full_scale: float
    gain_red: float
    gain_green: float
    gain_blue: float


@wp.struct
class Depth:
    """The figures of depth; see the options of the profile."""

    noisy: int
    shadowed: int
    edge_width: int
    key0: wp.uint32
    key1: wp.uint32
    baseline: float
    constant: float
    linear: float
    square: float
    disparity_noise: float
    disparity_step: float
    edge_dropout: float
    edge_threshold: float
    min_range: float
    max_range: float


@wp.struct
class Jpeg:
    """The figures of compression."""

    mask: _bool
    quantum: _f32  # (2, 64) steps of luma and chroma
    width: int
    height: int
    half: int  # whether chroma has half the resolution


@wp.struct
class Codes:
    """The tables of sRGB alone."""

    guess: _u8
    thresholds: _f32


@wp.func_native(snippets.COLOR)
def _color(k: Frame, src: _u8, out: _u8, row: int, chunk: int): ...


@wp.kernel
def color(k: Frame, src: _u8, out: _u8):
    """Lens, exposure, noise and white balance."""
    row, chunk = wp.tid()
    _color(k, src, out, row, chunk)


@wp.func_native(snippets.MOVE)
def _move(k: Frame, src: _int, out: _int, components: int, fill: int, row: int, chunk: int): ...


@wp.kernel
def move(k: Frame, src: _int, out: _int, components: int, fill: int):
    """The lens alone, for values that cannot be mixed."""
    row, chunk = wp.tid()
    _move(k, src, out, components, fill, row, chunk)


@wp.func_native(snippets.SHADOW)
def _shadow(k: Frame, d: Depth, src: _f32, shadow: _int, row: int, x: int): ...


@wp.kernel
def cast_shadow(k: Frame, d: Depth, src: _f32, shadow: _int):
    """What the second imager sees; one thread a pixel of the source."""
    row, x = wp.tid()
    _shadow(k, d, src, shadow, row, x)


@wp.func_native(snippets.DEPTH)
def _depth(k: Frame, d: Depth, src: _f32, shadow: _int, out: _f32, row: int, chunk: int): ...


@wp.kernel
def depth(k: Frame, d: Depth, src: _f32, shadow: _int, out: _f32):
    """Lens, drop-outs, noise and range of depth."""
    row, chunk = wp.tid()
    _depth(k, d, src, shadow, out, row, chunk)


@wp.func_native(snippets.BLOCK)
def _block(j: Jpeg, image: _u8, planes: _u8, env: int, block: int): ...


@wp.kernel
def compress(j: Jpeg, image: _u8, planes: _u8):
    """To quantised blocks and back to samples."""
    env, block = wp.tid()
    _block(j, image, planes, env, block)


@wp.func_native(snippets.EXPAND)
def _expand(j: Jpeg, planes: _u8, image: _u8, row: int, chunk: int): ...


@wp.kernel
def expand(j: Jpeg, planes: _u8, image: _u8):
    """Samples of the planes to colours."""
    row, chunk = wp.tid()
    _expand(j, planes, image, row, chunk)


@wp.func_native(snippets.ACCUMULATE)
def _accumulate(
    frame: _u8, decode: _f32, mask: _bool, weights: _f32, total: _f32, first: bool, many: int, length: int, height: int,
    t: int,
): ...  # fmt: skip


@wp.kernel
def accumulate(
    frame: _u8, decode: _f32, mask: _bool, weights: _f32, total: _f32, first: bool, many: int, length: int, height: int
):
    """Add a frame in linear light, rows by their weights."""
    _accumulate(frame, decode, mask, weights, total, first, many, length, height, wp.tid())


@wp.func_native(snippets.DEVELOP)
def _develop(k: Codes, mask: _bool, total: _f32, out: _u8, many: int, length: int, height: int, t: int): ...


@wp.kernel
def develop(k: Codes, mask: _bool, total: _f32, out: _u8, many: int, length: int, height: int):
    """What was added, as sRGB."""
    _develop(k, mask, total, out, many, length, height, wp.tid())
