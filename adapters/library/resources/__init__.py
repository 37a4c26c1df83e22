"""The memory of resources: what is written once over the ports, and the ledger behind them."""
