"""C++ bodies of the imager's Warp kernels, by stage.

One source serves the CPU, where a thread processes ``LANES`` pixels of a row in loops that the compiler vectorises, and
the GPU, where a thread processes one pixel. All arithmetic is float32 ``+ - * / sqrt rint`` without fused multiply-add,
and table look-ups, so every device gives the same bits.

In the code, ``k`` holds the image parameters (see ``kernels.py``). A thread processes ``n`` pixels from column ``x0``
of row ``y`` of env ``env``.

============== =====================================================================================
``common.py``  indices of a thread's pixels, the lens map, sRGB encoding, random words
``color.py``   lens, exposure, noise and white balance of colour images
``remap.py``   the lens alone, for values that cannot be mixed
``depth.py``   measurement of depth
``jpeg.py``    JPEG compression
``shutter.py`` averages of sub-frames
============== =====================================================================================
"""
