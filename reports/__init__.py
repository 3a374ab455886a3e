"""What a reader sees: figures, tables and pages, made from tables alone (no torch)."""
