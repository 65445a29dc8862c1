"""Camera profiles: lens, image sensor, shutter and compression, applied to the measured image."""
