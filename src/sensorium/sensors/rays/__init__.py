"""Ray-casting sensors: raycaster, lidar and depth camera, on patterns of rays.

By the pattern that :mod:`sensorium.sensors.robot` describes, ``ray_backend.py`` is the protocol between the sensors and
the engines, ``cpu_rays.py`` and ``gpu_rays.py`` implement it, and ``*kernels.py`` and ``warp_*kernels.py`` are their
kernels. ``ray_rig.py`` describes the rays of one sensor, ``ray_layout.py`` those of a group as both engines need them.
``receiver.py`` has the options of a lidar's receiver, ``surfaces.py`` the reflectivity of the geoms.
"""
