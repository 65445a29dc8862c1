"""The mark ``needs_gl``, which skips camera tests on machines without OpenGL."""

import pytest
import torch

from sensorium.cameras.raster.renderer import RasterRenderer

_MISSING = RasterRenderer.missing(torch.device("cpu"))
if _MISSING:
    print(f"camera tests are skipped: {_MISSING}")

needs_gl = pytest.mark.skipif(_MISSING is not None, reason=f"no OpenGL: {_MISSING}")
