"""x"""

from inferplan.cli import VERBS, run_verbs


def main() -> int:
    return run_verbs(VERBS, None)
