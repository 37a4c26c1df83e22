"""The stats view: tables for analysts, from headers only, in DuckDB."""
