"""What frameworks do when a card does not say: defaults as data, each by range of versions and with its source.

One file for each library or layer of a framework. A row holds for the versions from `from` on and before `below` of its
`library` (the file's own unless it names another), where every option of `when` has one of the values listed.
What is not established is not in the data: the last file, `assumed`, is what is then taken, and it is said so.
"""
