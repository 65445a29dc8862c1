"""The ``batch`` renderer: MuJoCo Warp's ray tracer, for all cameras and envs in one launch."""
