"""Topics under management, from creation to deletion, and what is told of them."""
