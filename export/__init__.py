"""edgeseg's export side: one file per target, parity and packaging."""
