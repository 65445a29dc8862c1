"""Initialise Warp without its banner, and without its warning on machines without a GPU.

Import this module before anything else uses Warp.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Redirect file descriptor 2 to the null device: Warp's native library writes its warning to it directly."""
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # a process without standard error needs no redirection
        yield
        return
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_level, wp.config.log_level = wp.config.log_level, wp.LOG_ERROR
with _no_stderr():
    wp.init()
wp.config.log_level = max(_level, wp.LOG_WARNING)
