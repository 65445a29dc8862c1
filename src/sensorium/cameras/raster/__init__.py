"""The ``raster`` renderer: MuJoCo's OpenGL rasterizer, with one context per CPU core.

=============== ======================================================================================
``renderer.py`` :class:`RasterRenderer`: threads, and the distribution of envs and cameras over them
``canvas.py``   the OpenGL context of one thread, and the drawing of one env
``kernels.py``  conversion of OpenGL buffers to images
=============== ======================================================================================
"""

from sensorium.cameras.raster.renderer import RasterRenderer

__all__ = ["RasterRenderer"]
