"""Running on devices by way of the OpenSSH client: what is copied, started, watched and brought back.

Nothing is installed on a device: it gets the one file and the bundle, by hash. The device's side of it is
`deploy/ondevice.py`, which travels in that file.
"""
