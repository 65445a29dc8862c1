"""The imager's Warp kernels, for the CPU and for GPUs; their C++ bodies are in ``snippets/``."""

import warp as wp

from sensorium.cameras.imager.snippets.color import COLOR
from sensorium.cameras.imager.snippets.depth import DEPTH, SHADOW
from sensorium.cameras.imager.snippets.jpeg import BLOCK, EXPAND
from sensorium.cameras.imager.snippets.remap import REMAP
from sensorium.cameras.imager.snippets.shutter import ACCUMULATE, DEVELOP
from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_int, _bool, _u8, _f32 = (wp.array(dtype=t) for t in (wp.int32, wp.bool, wp.uint8, wp.float32))


@wp.struct
class ImageParams:
    """Parameters of lens and colour: sizes, tables and figures."""

    mask: _bool  # (B,) which envs to process
    draw: _int  # (B, 2) what the random numbers of an env depend on, besides the keys; read as unsigned
    intrinsics: _f32  # (B, 4) fx, fy, cx, cy of the source, relative to the centre of its first pixel
    map: _f32  # (1 or B, H, W, 3), see lens.make_map
    decode: _f32  # (256,) sRGB to linear light
    guess: _u8  # linear light, in LINEAR_STEPS steps, to its sRGB value or one less
    thresholds: _f32  # (256,) linear light at which the next sRGB value begins
    reciprocal: _f32  # 1 / i for small numbers i
    map_stride: int  # values from one env's map to the next; 0 if all envs share one map
    width: int
    height: int
    source_width: int
    source_height: int
    left: int
    top: int
    moved: int  # whether positions are taken from the map
    shaded: int  # whether vignettes are taken from the map
    noisy: int
    key0: wp.uint32
    key1: wp.uint32
    red: float  # how much farther from the principal point the source of red is than that of green
    blue: float  # likewise for blue
    exposure: float
    electrons: float  # at linear light 1
    read_noise: float
    per_electron: float
    full_scale: float
    gain_red: float
    gain_green: float
    gain_blue: float


@wp.struct
class DepthParams:
    """Parameters of depth measurement; see the options of the profile."""

    noisy: int
    shadowed: int
    edge_width: int
    key0: wp.uint32
    key1: wp.uint32
    baseline: float
    focal: float  # focal length of the imagers that measure disparity; 0: that of the image
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
class JpegParams:
    """Parameters of compression."""

    mask: _bool
    quantum: _f32  # (2, 64) quantisation steps of luma and chroma
    width: int
    height: int
    half: int  # whether chroma has half the resolution


@wp.struct
class SrgbTables:
    """Tables of sRGB encoding."""

    guess: _u8
    thresholds: _f32


@wp.func_native(COLOR)
def _color(k: ImageParams, src: _u8, out: _u8, row: int, chunk: int): ...


@wp.kernel
def color(k: ImageParams, src: _u8, out: _u8):
    """Apply lens, exposure, noise and white balance to colour."""
    row, chunk = wp.tid()
    _color(k, src, out, row, chunk)


@wp.func_native(REMAP)
def _remap(k: ImageParams, src: _int, out: _int, components: int, fill: int, row: int, chunk: int): ...


@wp.kernel
def remap(k: ImageParams, src: _int, out: _int, components: int, fill: int):
    """Apply the lens to values that cannot be mixed."""
    row, chunk = wp.tid()
    _remap(k, src, out, components, fill, row, chunk)


@wp.func_native(SHADOW)
def _shadow(k: ImageParams, d: DepthParams, src: _f32, shadow: _int, row: int, x: int): ...


@wp.kernel
def cast_shadow(k: ImageParams, d: DepthParams, src: _f32, shadow: _int):
    """Compute what the second imager sees; one thread per source pixel."""
    row, x = wp.tid()
    _shadow(k, d, src, shadow, row, x)


@wp.func_native(DEPTH)
def _depth(k: ImageParams, d: DepthParams, src: _f32, shadow: _int, out: _f32, row: int, chunk: int): ...


@wp.kernel
def depth(k: ImageParams, d: DepthParams, src: _f32, shadow: _int, out: _f32):
    """Apply lens, drop-outs, noise and range to depth."""
    row, chunk = wp.tid()
    _depth(k, d, src, shadow, out, row, chunk)


@wp.func_native(BLOCK)
def _block(j: JpegParams, image: _u8, planes: _u8, env: int, block: int): ...


@wp.kernel
def compress(j: JpegParams, image: _u8, planes: _u8):
    """Convert an image to quantised blocks, and those back to samples."""
    env, block = wp.tid()
    _block(j, image, planes, env, block)


@wp.func_native(EXPAND)
def _expand(j: JpegParams, planes: _u8, image: _u8, row: int, chunk: int): ...


@wp.kernel
def expand(j: JpegParams, planes: _u8, image: _u8):
    """Convert the samples of the planes to colours."""
    row, chunk = wp.tid()
    _expand(j, planes, image, row, chunk)


@wp.func_native(ACCUMULATE)
def _accumulate(
    frame: _u8, decode: _f32, mask: _bool, weights: _f32, total: _f32, first: bool, many: int, length: int, height: int,
    t: int,
): ...  # fmt: skip


@wp.kernel
def accumulate(
    frame: _u8, decode: _f32, mask: _bool, weights: _f32, total: _f32, first: bool, many: int, length: int, height: int
):
    """Add a frame in linear light, with a weight per row."""
    _accumulate(frame, decode, mask, weights, total, first, many, length, height, wp.tid())


@wp.func_native(DEVELOP)
def _develop(k: SrgbTables, mask: _bool, total: _f32, out: _u8, many: int, length: int, height: int, t: int): ...


@wp.kernel
def develop(k: SrgbTables, mask: _bool, total: _f32, out: _u8, many: int, length: int, height: int):
    """Convert the sum of frames to sRGB."""
    _develop(k, mask, total, out, many, length, height, wp.tid())
