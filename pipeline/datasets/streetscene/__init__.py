"""Drawn street scenes: a camera, a light, a street and what stands in it, painted from far to near.

`scene.draw_scene` is the way in. A scene depends only on the random generator it is given; numpy draws the
numbers and OpenCV fills polygons and discs. Knows nothing of files, splits or training. Own work, no outside
sources.
"""
