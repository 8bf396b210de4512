"""Real agents on a scratch repository: seven command-line agents, offline, against a model that plays a script.

What is real: the agent, its hooks, its MCP client, its tools, its session files, and all of Bede. What is not: the
model, which says what is written down for it. `scripts/live` runs it; nothing here is collected by pytest.
"""
