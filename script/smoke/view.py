"""Extra view: the viewer's server starts and answers requests; trimesh can be imported."""

import urllib.request

import trimesh

import sensorium as sn

scene = sn.Scene()
scene.add_object(sn.Plane())
scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
scene.build()
viewer = scene.view()
with urllib.request.urlopen(viewer.address, timeout=30) as answer:
    assert answer.status == 200, answer.status
scene.step()
viewer.close()
assert trimesh.Trimesh
