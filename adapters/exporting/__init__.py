"""Export: the log with its content as a file that needs neither keys nor this program."""
