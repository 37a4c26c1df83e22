"""Runs SQL of analysts where it can do no harm: in a child process with limits of its own."""
