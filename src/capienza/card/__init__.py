"""The workload card: what must run, read strictly from YAML, with every problem of a file at once.

`model` holds the types, `fields` the one table that describes them, `load` reads a card, `schema` and `new` write
the JSON Schema and a card to start from.
"""
