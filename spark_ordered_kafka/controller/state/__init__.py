"""What the controllers keep in ZooKeeper, typed, and the paths where it lies."""
