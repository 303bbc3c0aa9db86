"""WHAT TO CHOOSE: candidates → evaluate → constraints → rank → Recommendation with reasons."""

from inferplan.planning.recommend import recommend
from inferplan.planning.shapes import priced
from inferplan.planning.types import (
    Alternative,
    Choice,
    Constraints,
    Decision,
    Defaults,
    EngineOverrides,
    GPUPool,
    Infeasible,
    Inputs,
    Notice,
    Objectives,
    PlanningRequest,
    Predicted,
    Recommendation,
)

__all__ = [
    "Alternative",
    "Choice",
    "Constraints",
    "Decision",
    "Defaults",
    "EngineOverrides",
    "GPUPool",
    "Infeasible",
    "Inputs",
    "Notice",
    "Objectives",
    "PlanningRequest",
    "Predicted",
    "Recommendation",
    "priced",
    "recommend",
]
