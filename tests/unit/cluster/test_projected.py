"""When the cluster already has what a manifest asks for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inferplan_operator.cluster.reconcile import projected

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)

WANTED = {"spec": {"replicas": 2, "containers": [{"name": "vllm", "args": ["--tensor-parallel-size=2"]}]}}


@given(JSON)
def test_everything_stands_in_itself(value: object) -> None:
    assert projected(value, value) == value


def test_defaults_and_fields_of_others_are_no_difference() -> None:
    stored = {
        "spec": {
            "replicas": 2,
            "strategy": {"type": "RollingUpdate"},
            "containers": [
                {"name": "vllm", "args": ["--tensor-parallel-size=2"], "terminationMessagePath": "/dev/termination-log"}
            ],
        },
        "status": {"replicas": 1},
    }
    assert projected(stored, WANTED) == WANTED


def test_another_value_an_added_container_and_a_missing_part_are() -> None:
    container = {"name": "vllm", "args": ["--tensor-parallel-size=4"]}
    assert projected({"spec": {"replicas": 2, "containers": [container]}}, WANTED) != WANTED
    added = {"spec": {"replicas": 2, "containers": [*WANTED["spec"]["containers"], {"name": "sidecar"}]}}
    assert projected(added, WANTED) != WANTED
    assert projected({"spec": {}}, WANTED) != WANTED
