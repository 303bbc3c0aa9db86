"""A plan's life, one file per phase (plan, approve, deploy, observe) over the same observation. Pure."""

from inferplan_operator.lifecycle.approve import command_to_approve
from inferplan_operator.lifecycle.digest import canonical, intent_of, make_offer, sha256_of, short, verify
from inferplan_operator.lifecycle.reconcile import reconcile
from inferplan_operator.lifecycle.request import request_of, serving_of
from inferplan_operator.lifecycle.types import Observed, Offer, OperatorSettings, Wanted

__all__ = [
    "Observed",
    "Offer",
    "OperatorSettings",
    "Wanted",
    "canonical",
    "command_to_approve",
    "intent_of",
    "make_offer",
    "reconcile",
    "request_of",
    "serving_of",
    "sha256_of",
    "short",
    "verify",
]
