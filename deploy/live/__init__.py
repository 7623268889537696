"""The native demo: frames from a source through a bundle onto a screen, for eyes and for recording."""
