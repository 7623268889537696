"""TensorRT engines: how one is built from a network, where it is kept, and the memory it computes in."""
