"""CT volumes with labels -> a labelled folder of slices in Hounsfield units; what the CT kinds share."""
