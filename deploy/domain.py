"""The domain of a bundle in a word, as far as its manifest says so: what a demo's domain switch shows."""

from __future__ import annotations

from deploy.manifest import Manifest


def domain_name(manifest: Manifest) -> str:
    """The data set's name ("CT: name" for Hounsfield units), else the bundle's."""
    kind = "CT" if manifest.preprocess.hu_window else ""
    names = list(manifest.provenance.licences)
    return ": ".join(filter(None, [kind, names[0] if names else ""])) or manifest.name
