"""Notices on their way: documents, the board they end on, and the signed folder between machines.

`document` reads and writes the JSON that travels, `board` brings notices into the log, `envelope` signs and opens,
`policy` says whom this machine trusts, `folder` touches the disk, `running` does one round of it all. Nothing here runs
by itself, and nothing here touches the network: a folder is a transport and never a reason to trust.
"""
