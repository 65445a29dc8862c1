"""Cameras and the renderers behind them."""
