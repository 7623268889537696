"""Graph hygiene: which operators an artifact may hold, and how many of those that cost without computing.

A graph that grew a Resize, or twice the transposes, still gives the right masks; it is only slow, or refused
by the next device. So each target states what its artifacts are made of, and every build is counted. Refuses
to know file formats: a target counts its own operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deploy.errors import GateError

if TYPE_CHECKING:
    from pipeline.models.labelmap import LabelMapper


@dataclass(frozen=True)
class Most:
    """How many operators of a type there may be: `base`, and so many for each part of a kind.

    Args:
        linear, softmax: for each attention block with that core. band: for each row band of the label map.
    """

    base: int
    linear: int = 0
    softmax: int = 0
    band: int = 0

    def of(self, parts: Mapping[str, int]) -> int:
        """The limit of a network with so many parts of each kind."""
        return self.base + sum(count * int(getattr(self, kind)) for kind, count in parts.items())


@dataclass(frozen=True)
class GraphRules:
    """What an artifact may be made of.

    Args:
        allowed: operator types, separated by spaces; anything else fails the build.
        most: limits of some of them, by type.
    """

    allowed: str
    most: Mapping[str, Most] = field(default_factory=dict)


def network_parts(net: LabelMapper) -> Counter[str]:
    """How many parts of each kind of `Most` the network has."""
    from pipeline.models.attention import MultiScaleAttention

    cores = [module.core for module in net.modules() if isinstance(module, MultiScaleAttention)]
    return Counter({**Counter(cores), "band": len(net.labels.spans) if net.labels else 0})


def check_graph(counts: Counter[str], rules: GraphRules, parts: Mapping[str, int], what: str) -> None:
    """Raise GateError where an artifact (`what`) holds other or more operators than its target allows.

    Args:
        counts: operators of the artifact by type. parts: of the network, by kind (`network_parts`).
    """
    allowed = rules.allowed.split()
    broken = [f"{name} ({count})" for name, count in sorted(counts.items()) if name not in allowed]
    expected = f"only {', '.join(allowed)}"
    if not broken:
        limits = {name: most.of(parts) for name, most in rules.most.items()}
        over = {name: limit for name, limit in limits.items() if counts[name] > limit}
        broken = [f"{counts[name]} {name}" for name in over]
        expected = ", ".join(f"at most {limit} {name}" for name, limit in over.items())
    if broken:
        fix = "use the pinned converter, or widen the target's RULES if the graph is meant to be so"
        raise GateError(f"{what}: operators outside the target's rules", ", ".join(broken), expected, fix)
