"""How transcripts become part of a project's memory: found, read on from where one stopped, placed, written once."""
