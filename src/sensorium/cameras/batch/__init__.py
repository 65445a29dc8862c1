"""The ``batch`` renderer: MuJoCo Warp's ray tracer, for all cameras and envs in one launch.

=============== =========================================================================================
``renderer.py`` :class:`BatchRenderer`: the GPU backend, and the CPU backend with its threads
``tracer.py``   MuJoCo Warp's ray tracer with our cameras
``kernels.py``  Warp kernels that set up the cameras and convert the tracer's buffers to images
=============== =========================================================================================
"""

from sensorium.cameras.batch.renderer import BatchRenderer

__all__ = ["BatchRenderer"]
