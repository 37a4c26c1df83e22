"""What memory is: pure Python, no input or output."""
