"""EfficientViT segmenters: architecture, exact upsampling, label map, checkpoints. No data, no training."""
