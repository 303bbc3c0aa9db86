"""The hub fixture for this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hub_server import hub

__all__ = ["hub"]
