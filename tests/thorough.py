"""Tells whether this run takes the tests marked `thorough`: what installs or builds for minutes."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("NKI_LAB_THOROUGH"))
