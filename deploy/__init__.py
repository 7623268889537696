"""edgeseg on the device: bundles, pre- and postprocessing, metrics, measurement. Never imports torch."""
