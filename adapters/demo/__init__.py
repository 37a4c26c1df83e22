"""The demo: an invented conversation, `history.json`, in LoCoMo format, and the story around it."""
