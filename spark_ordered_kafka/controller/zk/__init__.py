"""ZooKeeper: connections, the session that only the controller writes through, and the election of the controller."""
