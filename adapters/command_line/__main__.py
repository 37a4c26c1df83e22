"""``python -m memoriale.adapters.command_line``."""

from memoriale.adapters.command_line import main

if __name__ == "__main__":
    main()
