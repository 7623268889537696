"""CT phantoms: bodies of simple solids in Hounsfield units, a scanner with noise and streaks, files."""
