"""Model tests compute with the two threads they have been timed with."""

from __future__ import annotations

import torch

torch.set_num_threads(2)
