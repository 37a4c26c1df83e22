"""Where keys live, and what is sealed and tagged with them."""
