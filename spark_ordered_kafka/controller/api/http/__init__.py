"""What routes and middleware share: bodies, errors, rights, threads."""
