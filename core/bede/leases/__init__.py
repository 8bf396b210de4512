"""Leases: who may touch which file for how long, who waits for it, and what they were about.

A small room of its own beside the repository, because the hook before an edit has to be through it before an
interpreter could read the repository's code: nothing here imports more than sqlite3, json, os, time and `bede.errors`.
Every function works inside a transaction that its caller holds. What happens is written into an outbox, from where
`bede.answers.tidings` makes events of it; the tables themselves are no part of the history.
"""
