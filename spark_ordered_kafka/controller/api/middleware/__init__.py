"""What every request passes through before it comes to a route."""
