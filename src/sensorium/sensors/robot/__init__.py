"""Sensors of the robot's own state: IMU, joints, wrench, pose, GPS, odometry, battery and others.

A sensor that computes its own signal is spread over these modules; to add one, copy ``barometer``:

- ``barometer.py``: options, data and sensor class. ``_build_group`` chooses the backend; every hook delegates to it.
- ``barometer_backend.py``: a protocol (``BarometerBackend``) with one class per engine (``CpuBarometer``,
  ``GpuBarometer``). A backend holds all state of the group; sensors set no attributes on a ``SensorGroup``.
- ``kernels.py`` (Numba) and ``warp_kernels.py`` (Warp): the kernels. Backends import them in ``__init__``, because
  importing Numba or Warp takes about a second each.

CPU methods behind ``@replayable`` hooks only call ``launch`` with the same arguments in every step. GPU methods are
captured in a CUDA graph: they must not synchronise with the host, and memory that outlives a step is allocated in
``__init__``. A sensor that runs on the CPU engine alone (``cpu_only``) has one class and no protocol.
"""
