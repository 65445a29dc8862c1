"""Extra photoreal: the path tracer renders one image of 16 by 16 pixels."""

import sensorium as sn

scene = sn.Scene()
scene.add_object(sn.Plane())
scene.add_object(sn.Sphere(radius=0.2), name="ball", pos=(0, 0, 0.5))
eye = scene.add_sensor(sn.RaytracerCamera(pos=(1, 0, 0.6), lookat=(0, 0, 0.4), resolution=(16, 16), samples=4))
scene.build()
scene.step()
rgb = eye.read_ground_truth().rgb
assert rgb.shape[-3:] == (16, 16, 3), rgb.shape
assert rgb.float().std() > 0, "the image is uniform"
