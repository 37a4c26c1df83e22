"""How well recall finds what answers the questions of a folder of conversations."""
