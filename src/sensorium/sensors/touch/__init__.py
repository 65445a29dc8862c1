"""Sensors of touch and proximity: contact switches and forces, probes, tactile arrays, elastomers.

They follow the pattern that :mod:`sensorium.sensors.robot` describes. All but the contact switch and the contact force
need the CPU engine, so they have one backend each. ``probe_sensor.py`` and ``probe_field.py`` are the base of those
that find the nearest surface, and ``skin.py`` applies the imperfections of tactile skins.
"""
