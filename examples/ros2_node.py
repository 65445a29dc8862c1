"""A ROS 2 node that runs a policy file: sensors in, joint commands out. It needs ROS 2 and sensorium[deploy].

python examples/ros2_node.py --policy policy.onnx --topics /robot_imu /imu/data /robot_wheels /joint_states
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sensorium.deploy import Policy
from sensorium.errors import StaleInputError


@dataclass
class Options:
    policy: str  # the policy file
    topics: dict[str, str] = field(default_factory=dict)  # topic of the contract -> topic on the robot


class Runner:  # the part of the node that does not know ROS
    def __init__(self, policy: Policy, publish: Callable[..., None], warn: Callable[[str], None]) -> None:
        self.policy, self.publish, self.warn = policy, publish, warn
        self.commands: dict[str, object] = dict.fromkeys(policy.command_names, (0.0, 0.0, 0.0))

    def drive(self, forward: float, left: float, turn: float) -> None:
        self.commands = dict.fromkeys(self.policy.command_names, (forward, left, turn))

    def tick(self, now: float) -> None:
        """Decide and publish; publish nothing if an input is stale, so that the drives stop by their own time-out."""
        try:
            command = self.policy.act(now, self.commands).tolist()
        except StaleInputError as error:
            self.warn(str(error))
            return
        for term in self.policy.contract.actions:
            values, command = command[: len(term.names)], command[len(term.names) :]
            kind = {"joint_torque": "effort", "joint_velocity": "velocity"}.get(term.kind, "position")
            self.publish(name=list(term.names), **{kind: values})


def main(options: Options) -> None:
    import rclpy  # type: ignore[import-not-found]
    from rosidl_runtime_py.utilities import get_message  # type: ignore[import-not-found]

    rclpy.init()
    node, policy = rclpy.create_node("policy"), Policy.load(options.policy, topics=options.topics)
    joints, twist = (get_message(name) for name in ("sensor_msgs/msg/JointState", "geometry_msgs/msg/Twist"))
    output = node.create_publisher(joints, "joint_commands", 1)
    runner = Runner(policy, lambda **fields: output.publish(joints(**fields)), node.get_logger().warning)
    now: Callable[[], float] = lambda: node.get_clock().now().nanoseconds * 1e-9  # noqa: E731
    for topic, kind in policy.topics.items():
        node.create_subscription(get_message(kind), topic, lambda m, t=topic: policy.feed(t, m, now()), 10)
    node.create_subscription(twist, "cmd_vel", lambda m: runner.drive(m.linear.x, m.linear.y, m.angular.z), 1)
    node.create_timer(1.0 / policy.rate, lambda: runner.tick(now()))
    rclpy.spin(node)


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Options))
