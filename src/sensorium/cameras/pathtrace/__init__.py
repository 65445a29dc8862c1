"""The ``pathtrace`` renderer: photo-realistic images by Mitsuba 3.

=================== =============================================================================================
``renderer.py``     :class:`PathtraceRenderer`: chooses the Mitsuba scene of each env, and traces its cameras
``traced_scene.py`` a Mitsuba scene that follows the engine
``scene.py``        materials and meshes of the model
``shapes.py``       triangles of the model's geoms
``flexes.py``       deformables: ropes, cloth and soft bodies
``lights.py``       lights
``sky.py``          environment maps, sky and ambient light
``tracers.py``      tracing of light: compiled for whole images, or ray by ray
``denoise.py``      the choice of the denoiser, and tracing for each of them
``atrous.py``       the à-trous denoiser
``tone.py``         tone mapping
=================== =============================================================================================

Mitsuba is imported when a renderer is built.
"""

from sensorium.cameras.pathtrace.renderer import PathtraceRenderer

__all__ = ["PathtraceRenderer"]
