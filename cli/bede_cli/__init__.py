"""Bede's faces: the command line and the MCP server, derived from the operations of `bede`.

Nothing in here holds SQL, policy or hashing. Delete this package and every verb still works from Python.
"""
