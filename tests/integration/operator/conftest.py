"""The operator and a team for the tests of this folder."""

from operator_team import running_operator, team

__all__ = ["running_operator", "team"]
