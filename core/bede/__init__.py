"""Bede's library: one append-only, branchable memory per project.

The package holds the log, its projections and the verbs over them. It never prints, and knows neither the
terminal nor MCP: delete the command line and every verb still works from Python.
"""

__version__ = "0.1.0"
