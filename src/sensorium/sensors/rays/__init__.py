"""Sensors that cast rays: raycaster, lidar, depth camera, and the patterns they cast."""
