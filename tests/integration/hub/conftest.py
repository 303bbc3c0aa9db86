"""The hub for the tests of this folder."""

from hub_server import hub

__all__ = ["hub"]
