"""Topics under management: creation, changes of state, deletion, and descriptions."""
