"""The progress line shows on a terminal only, and never changes the items."""

from __future__ import annotations

import sys

import pytest

from deploy.progress import track


@pytest.mark.parametrize("terminal", [True, False])
def test_items_pass_through(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert list(track([3, 1, 2], "work")) == [3, 1, 2]
    assert list(track([], "nothing")) == []
    captured = capsys.readouterr()
    assert ("work 3/3" in captured.err) == terminal and captured.out == ""
    assert terminal or captured.err == ""
