"""The invented conversation that the demo imports: `history.json`, in LoCoMo format."""
