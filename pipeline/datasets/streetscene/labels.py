"""The classes of the drawn street scenes, their ids and display colours.

Ids are the values in the masks; `IGNORE` marks pixels that belong to no class (the ego car's bonnet).
"""

from __future__ import annotations

SKY, BUILDING, ROAD, PAVEMENT, TREE, CAR, PERSON, POLE, SIGN = range(9)
IGNORE = 255

NAMES = ("sky", "building", "road", "pavement", "tree", "car", "person", "pole", "sign")
DISPLAY = (
    (110, 170, 230),
    (150, 70, 60),
    (120, 70, 130),
    (230, 120, 200),
    (60, 140, 50),
    (30, 50, 190),
    (235, 40, 70),
    (240, 220, 130),
    (250, 150, 20),
)
