"""Constants of the International Standard Atmosphere (ISO 2533) below the tropopause."""

STANDARD_PRESSURE = 101325.0
"""Pressure at sea level, Pa."""
STANDARD_TEMPERATURE = 288.15
"""Temperature at sea level, K."""
LAPSE_RATE = 0.0065
"""Decrease of temperature with height, K/m."""
TROPOPAUSE = 11000.0
"""Geopotential height up to which the temperature decreases, m."""
EARTH_RADIUS = 6356766.0
"""Radius r of the earth in geopotential heights, m: H = r z / (r + z) at the geometric height z."""
EXPONENT = 9.80665 / (287.05287 * LAPSE_RATE)
"""g / (R L) = 5.25588, with the gas constant R of air; pressure = p0 (1 - L H / T0) ** EXPONENT."""
