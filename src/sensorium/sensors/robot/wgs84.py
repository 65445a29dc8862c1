"""The ellipsoid of the World Geodetic System 1984."""

import math

SEMI_MAJOR = 6378137.0
"""Equatorial radius, m."""
FLATTENING = 1 / 298.257223563
ECCENTRICITY_2 = FLATTENING * (2 - FLATTENING)
"""Square of the first eccentricity."""


def cartesian(latitude: float, longitude: float, altitude: float) -> tuple[float, float, float]:
    """Earth-centred, Earth-fixed position (m) of a geodetic one (degrees, m above the ellipsoid)."""
    lat, lon = math.radians(latitude), math.radians(longitude)
    normal = SEMI_MAJOR / math.sqrt(1 - ECCENTRICITY_2 * math.sin(lat) ** 2)
    across = (normal + altitude) * math.cos(lat)
    return across * math.cos(lon), across * math.sin(lon), (normal * (1 - ECCENTRICITY_2) + altitude) * math.sin(lat)
