"""Camera profiles: lens, image sensor, shutter and compression, applied to the measured image.

================ ==========================================================================================
``profile.py``   :class:`CameraProfile`, the options; named profiles are the JSON files in ``profiles/``
``lens.py``      distortion of the lens: :class:`Intrinsics`, :class:`Margins`, rays, lens maps
``imager.py``    :class:`Imager`, which applies a profile to the images of one camera
``parameters.py`` tables and kernel parameters of an imager
``launcher.py``  launches of the kernels on the CPU or a GPU
``kernels.py``   Warp kernels, whose C++ bodies are in ``snippets/``
``exposure.py``  :class:`Shutter` and :class:`Exposure`: motion blur and rolling shutters
``motion.py``    :class:`Motion`: recent positions of the world, for sub-frames
================ ==========================================================================================

Importing this package does not import Warp; :class:`Imager` is loaded at first use.
"""

from typing import TYPE_CHECKING

from sensorium.cameras.imager.lens import Intrinsics, Margins
from sensorium.cameras.imager.profile import CameraProfile

if TYPE_CHECKING:
    from sensorium.cameras.imager.imager import Imager

__all__ = ["CameraProfile", "Imager", "Intrinsics", "Margins"]


def __getattr__(name: str) -> object:
    if name == "Imager":
        from sensorium.cameras.imager.imager import Imager

        return Imager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
