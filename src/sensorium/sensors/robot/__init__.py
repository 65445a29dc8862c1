"""Sensors of the robot's own state: IMU, joints, wrench, pose, GPS, odometry, battery and others."""
