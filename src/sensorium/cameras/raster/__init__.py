"""The ``raster`` renderer: MuJoCo's OpenGL rasterizer, on every CPU core."""
