"""Sensors of touch and proximity: contact switches and forces, probes, tactile arrays, elastomers.

They follow the pattern that :mod:`sensorium.sensors.robot` describes; kernels lie beside what they serve, Numba's in
``NAME.py`` or ``NAME_kernels.py`` and Warp's in ``warp_NAME.py`` or ``warp_NAME_kernels.py``. ``probe_sensor.py`` and
``probe_layout.py`` are the base of those that find surfaces, with a field of probes per engine (``probe_field.py``,
``gpu_probe_field.py``): to the nearest surface (``nearest.py``, with the distances of ``distance.py``) or to the
deepest one along a normal (``normal_depth.py``, with the chords of ``chord.py``). ``skin_sensor.py`` is the base
of those with a tactile skin, whose imperfections ``skin.py`` and ``gpu_skin.py`` apply.
"""
