"""Outside places of checkpoints: folders, object stores, git, witnesses, time stamps."""
