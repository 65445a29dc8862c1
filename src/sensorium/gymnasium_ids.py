"""The tasks as Gymnasium environments: their ids, registered without importing the tasks."""

from __future__ import annotations

IDS = {
    "pick": "sensorium/Pick-v0",
    "pick_and_place": "sensorium/PickAndPlace-v0",
    "opening": "sensorium/Opening-v0",
    "door_opening": "sensorium/DoorOpening-v0",
    "nav_to_obj": "sensorium/NavToObj-v0",
    "multi": "sensorium/MultiTask-v0",
    "balance": "sensorium/Balance-v0",
    "reach": "sensorium/Reach-v0",
    "walk": "sensorium/Walk-v0",
    "lift": "sensorium/Lift-v0",
}
"""Name of a task -> id of its environment."""


def register(ids: dict[str, str] = IDS) -> None:
    """Register environments with Gymnasium, if they are not yet. It imports Gymnasium, and a task at its first use."""
    import gymnasium

    for name, env_id in ids.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point=None if name == "multi" else "sensorium.tasks.gym:make_gym",  # a vector only
                vector_entry_point="sensorium.tasks.gym:make_vector",
                kwargs={"task": name},
            )
