"""How fast this is, beside Spark's own ``kafka`` connector, confluent-kafka's clients, kafkarrow and a loop in C.

``make bench`` runs it; no part of it is installed with the package.
"""
