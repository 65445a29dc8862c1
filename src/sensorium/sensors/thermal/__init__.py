"""Temperature sensors: a grid of cells with conduction, contact, convection and radiation.

``temperature_grid.py`` declares the sensor and ``temperature_grid_backend.py`` computes it, by the pattern that
:mod:`sensorium.sensors.robot` describes. ``network.py`` divides links into nodes, and ``kernels.py`` moves heat between
them.
"""
