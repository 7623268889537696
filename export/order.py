"""An order: all that is to be built, from what and for what, as the command line asked for it.

Refuses to know how it is built (`export/assemble.py`) and whether that is needed (`export/record.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from export.calibration_images import CalibrationImages
from export.calibration_table import CalibrationTable
from export.given import GivenNetwork
from export.pictures import Pictures
from export.precision_plan import PrecisionPlan
from export.source import Source
from export.targets import Budget, Pack, Shape, Target


@dataclass(frozen=True)
class Order:
    """A checkpoint for a target, compared on pictures.

    Args:
        final: last upsampling, as in `LabelMapper`. calibration: None for precisions without.
        given: somebody else's network in the checkpoint's place. pack: the part of a bundle with domains.
        labelled: images to pack as `eval/`.
        plan: which blocks are in int8. table: of the calibration images, where it is known already.
    """

    source: Source
    target: Target
    precision: str
    shape: Shape
    final: str
    pictures: Pictures
    calibration: CalibrationImages | None = None
    given: GivenNetwork | None = None
    pack: Pack | None = None
    labelled: int = 0
    plan: PrecisionPlan | None = None
    table: CalibrationTable | None = None

    def __str__(self) -> str:
        return f"{self.source.name} for {self.target.NAME} {self.precision}"

    @property
    def class_axis(self) -> str:
        """Of the label map's bands (`BandedLabels`), as the target prefers it."""
        return getattr(self.target, "CLASS_AXIS", "last")

    @property
    def budget(self) -> Budget:
        """What the target allows in this precision, or the plan."""
        allowed = self.target.BUDGET[self.precision]
        return replace(allowed, miou_drop=self.plan.budget) if self.plan else allowed
