"""Core ML's ML Programs without Apple's runtime: a saved package is read back and run, op by op."""
