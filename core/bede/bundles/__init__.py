"""Bundles: events of one machine in one file, signed and compressed, for another machine to take in.

The rooms here are the form of the file, packing, reading with every check, whom to trust, and how two heads of one ref
become one. What a file says is believed only when all of it has been checked; nothing here writes to the log.
"""
