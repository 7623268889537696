"""What serves the page and takes its reports: an ASGI app behind a guard. Needs `edgeseg[serve]`."""
