"""The controllers' state in ZooKeeper as typed records, with the paths of its znodes."""
