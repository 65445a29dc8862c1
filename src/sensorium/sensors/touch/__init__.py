"""Sensors of touch and proximity: contact switches and forces, probes, tactile arrays, elastomers."""
