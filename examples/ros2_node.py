"""A ROS 2 node that runs a policy file: sensors in, joint commands out. It needs ROS 2 and sensorium[deploy].

python examples/ros2_node.py --policy policy.onnx --topics /robot_imu /imu/data /robot_wheels /joint_states
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sensorium.deploy import Policy
from sensorium.errors import StaleInputError

FIELDS = {"joint_position": "position", "joint_velocity": "velocity", "joint_torque": "effort"}


@dataclass
class Options:
    """Options of the node."""

    policy: str  # the policy file
    topics: dict[str, str] = field(default_factory=dict)  # topic of the contract -> topic on the robot


class Runner:
    """The part of the node that does not know ROS: messages and ticks in, names and values of commands out."""

    def __init__(self, policy: Policy, publish: Callable[..., None], warn: Callable[[str], None]) -> None:
        self.policy, self.publish, self.warn = policy, publish, warn
        self.commands: dict[str, object] = dict.fromkeys(policy.command_names, (0.0, 0.0, 0.0))

    def drive(self, twist: object) -> None:
        """Take a Twist as the command: forward, left, turn."""
        self.commands["command"] = (twist.linear.x, twist.linear.y, twist.angular.z)  # type: ignore[attr-defined]

    def tick(self, now: float) -> None:
        """Decide and publish; publish nothing if an input is stale, so that the drives stop by their own time-out."""
        try:
            command = self.policy.act(now, self.commands).tolist()
        except StaleInputError as error:
            self.warn(str(error))
            return
        for term in self.policy.contract.actions:
            values, command = command[: len(term.names)], command[len(term.names) :]
            self.publish(name=list(term.names), **{FIELDS.get(term.kind, "position"): values})


def main(options: Options) -> None:
    """Subscribe to the topics of the contract, and publish commands at the policy's rate."""
    import rclpy  # type: ignore[import-not-found]
    from geometry_msgs.msg import Twist  # type: ignore[import-not-found]
    from rosidl_runtime_py.utilities import get_message  # type: ignore[import-not-found]
    from sensor_msgs.msg import JointState  # type: ignore[import-not-found]

    policy = Policy.load(options.policy, topics=options.topics)
    rclpy.init()
    node = rclpy.create_node("policy")
    publisher = node.create_publisher(JointState, "joint_commands", 1)
    runner = Runner(policy, lambda **fields: publisher.publish(JointState(**fields)), node.get_logger().warning)
    now: Callable[[], float] = lambda: node.get_clock().now().nanoseconds * 1e-9  # noqa: E731
    for topic, kind in policy.topics.items():
        node.create_subscription(get_message(kind), topic, lambda m, t=topic: policy.feed(t, m, now()), 10)
    if "command" in policy.command_names:
        node.create_subscription(Twist, "cmd_vel", runner.drive, 1)
    node.create_timer(1.0 / policy.rate, lambda: runner.tick(now()))
    rclpy.spin(node)


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Options))
