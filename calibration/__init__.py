"""edgeseg's calibration side: which images, which ranges, which precision per block."""
