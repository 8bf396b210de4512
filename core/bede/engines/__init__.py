"""The heavy guests, each behind a door of its own: token counting, embedders, rerankers, graph engines.

A guest's library is imported inside the function that needs it, when it is first needed, and never by
importing a module of this room. Nothing here fetches anything: what a guest needs is in the package or on the
user's disk.
"""
