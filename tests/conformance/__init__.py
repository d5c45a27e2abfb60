"""Every operator, alone, against LiteRT: one module per family of operators, each a table of cases."""
