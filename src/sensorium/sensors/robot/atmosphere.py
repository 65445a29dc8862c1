"""The International Standard Atmosphere (ISO 2533) up to the tropopause."""

STANDARD_PRESSURE = 101325.0
"""Pa, at sea level."""
STANDARD_TEMPERATURE = 288.15
"""K, at sea level."""
LAPSE_RATE = 0.0065
"""K by which it gets colder per metre."""
TROPOPAUSE = 11000.0
"""Height in m up to which it does."""
EXPONENT = 9.80665 / (287.05287 * LAPSE_RATE)
"""g / (R L) with the gas constant of air, of pressure = p0 (1 - L h / T0) ** EXPONENT: 5.25588."""
