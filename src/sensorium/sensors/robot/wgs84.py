"""Ellipsoid of the World Geodetic System 1984 (WGS84)."""

import math

SEMI_MAJOR = 6378137.0
"""Equatorial radius, m."""
FLATTENING = 1 / 298.257223563
"""Flattening, 1 - polar radius / equatorial radius."""
ECCENTRICITY_2 = FLATTENING * (2 - FLATTENING)
"""Square of the first eccentricity."""


def cartesian(latitude: float, longitude: float, altitude: float) -> tuple[float, float, float]:
    """Return the Earth-centred, Earth-fixed position of a geodetic one.

    Args:
        latitude: geodetic latitude, degrees.
        longitude: longitude, degrees.
        altitude: height above the ellipsoid, m.

    Returns:
        x, y and z in m.
    """
    lat, lon = math.radians(latitude), math.radians(longitude)
    normal = SEMI_MAJOR / math.sqrt(1 - ECCENTRICITY_2 * math.sin(lat) ** 2)
    across = (normal + altitude) * math.cos(lat)
    return across * math.cos(lon), across * math.sin(lon), (normal * (1 - ECCENTRICITY_2) + altitude) * math.sin(lat)
