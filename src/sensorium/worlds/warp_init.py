"""Starts Warp quietly: without its banner, and without a warning where there is no GPU. Import it before using Warp."""

import warp as wp

_level, wp.config.log_level = wp.config.log_level, wp.LOG_ERROR
wp.init()
wp.config.log_level = max(_level, wp.LOG_WARNING)
