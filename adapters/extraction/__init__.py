"""What language models are asked to take from conversations, and how their replies are read."""
