"""``Light``: lights of a scene, for cameras and snapshots."""

from __future__ import annotations

from typing import Literal, TypeAlias

import mujoco
import numpy as np
from pydantic import Field, model_validator

from sensorium.options import Options
from sensorium.worlds.environments import EnvironmentMap, add_environments

_ALL_AROUND = 180.0
"""Half the opening angle, in degrees, of the spot that stands for a point light: MuJoCo's OpenGL renderer does not
render point lights."""


LightType: TypeAlias = Literal["directional", "point", "spot", "area"]


class Light(Options):
    """Options of a light: ``scene.add_light(type="spot", pos=(0, 0, 3), lookat=(0, 0, 0), cutoff=40)``."""

    type: LightType = "directional"
    """"directional": parallel rays along ``direction``. "point": all directions from ``pos``. "spot": a cone from
    ``pos``. "area": a disc of ``radius`` at ``pos``; only the path tracer has it, other renderers draw a point, and
    warn."""
    name: str | None = Field(default=None, min_length=1)
    """Name in the model. Default: the type, numbered."""
    pos: tuple[float, float, float] = (0.0, 0.0, 3.0)
    """Position in the world frame, m. The shadow map of a directional light is centred there."""
    direction: tuple[float, float, float] | None = None
    """Direction of the light in the world frame, of any length. Default: down."""
    lookat: tuple[float, float, float] | None = None
    """A point in the world frame that the light is directed at, instead of ``direction``, m."""
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Red, green, blue."""
    intensity: float = Field(default=0.7, ge=0)
    """Factor on ``color``. A white wall that faces a white light of intensity 1 is white."""
    specular: float = Field(default=0.3, ge=0)
    """Factor on ``color`` for highlights."""
    shadow: bool = True
    """Whether the light casts shadows, if the quality of the image allows it. Only the path tracer renders shadows of
    point and area lights."""
    cutoff: float = Field(default=45.0, gt=0, le=90)
    """Half the opening angle of a spot, degrees."""
    radius: float = Field(default=0.25, gt=0)
    """Radius of an area light, m."""
    texture: str | None = Field(default=None, min_length=1)
    """Image file that an area light shows and emits, as a factor on its colour: a screen or a softbox. The image fills
    the square around the disc, seen from the front, with its top row towards +z of the world (+y if the light shines
    straight up or down). Only the path tracer has it; other renderers warn."""

    @model_validator(mode="after")
    def _check(self) -> Light:
        if self.direction is not None and self.lookat is not None:
            raise ValueError("give direction or lookat, not both")
        if float(np.linalg.norm(self.vector)) < 1e-9:
            raise ValueError("direction must not be zero, and lookat must differ from pos")
        if self.texture is not None and self.type != "area":
            raise ValueError(f"texture needs type='area', got type={self.type!r}; other lights have no surface")
        return self

    @property
    def vector(self) -> np.ndarray:
        """Direction of the light in the world frame, of any length, (3,)."""
        if self.lookat is not None:
            return np.subtract(self.lookat, self.pos)
        return np.asarray((0.0, 0.0, -1.0) if self.direction is None else self.direction, float)

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add the light to the spec of a scene."""
        directional = self.type == "directional"
        around = self.type in ("point", "area")
        spec.worldbody.add_light(
            name=self.name,
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL if directional else mujoco.mjtLightType.mjLIGHT_SPOT,
            pos=self.pos,
            dir=self.vector / np.linalg.norm(self.vector),
            diffuse=np.multiply(self.color, self.intensity),
            specular=np.multiply(self.color, self.specular),
            ambient=(0.0, 0.0, 0.0),
            castshadow=self.shadow and not around,
            cutoff=_ALL_AROUND if around else self.cutoff,
            exponent=0.0 if around else 10.0,
            bulbradius=self.radius if self.type == "area" else 0.02,
        )


def light_scene(
    spec: mujoco.MjSpec,
    lights: tuple[Light, ...],
    sky: tuple[tuple[float, ...], ...] | None,
    environments: tuple[EnvironmentMap, ...] = (),
) -> None:
    """Add lights and sky to a spec. Without any light, the headlight of the camera is made brighter."""
    head = spec.visual.headlight
    if lights:
        head.ambient, head.diffuse, head.specular = (0.3,) * 3, (0.0,) * 3, (0.0,) * 3
    elif not spec.lights:
        head.ambient, head.diffuse = (0.35,) * 3, (0.6,) * 3
    for light in lights:
        light.add_to(spec)
    if sky is not None or environments:
        for texture in [one for one in spec.textures if one.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX]:
            spec.delete(texture)
    if environments:
        add_environments(spec, environments)
    if sky is not None:
        spec.add_texture(
            name="sky",
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=sky[0],
            rgb2=sky[1],
            width=128,
            height=768,
        )
