"""On the device's side: `finite.py BUNDLE FRAMES.npz` prints how many outputs are not finite, a frame."""

import sys
from pathlib import Path

import numpy as np

from deploy.bundle import load_bundle
from deploy.runtimes import open_session

session = open_session(load_bundle(Path(sys.argv[1])), 1)
for frame in np.load(sys.argv[2]).values():
    print(np.count_nonzero(~np.isfinite(session.run(frame))), flush=True)
