from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from service.http.monitoring import BUCKETS, Histograms

DURATIONS = st.floats(0, 100) | st.sampled_from(BUCKETS)


@given(st.lists(st.tuples(st.sampled_from(("a", 'b"\n')), DURATIONS)))
def test_histograms_are_exposed_as_those_of_prometheus_client(
    observed: list[tuple[str, float]],
) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    histograms = Histograms("x_seconds", "What it is.", ("stage",))
    ours.register(histograms)
    expected = Histogram("x_seconds", "What it is.", ("stage",), buckets=BUCKETS, registry=theirs)
    for stage, seconds in observed:
        histograms.labels(stage).observe(seconds)
        expected.labels(stage).observe(seconds)
    lines = generate_latest(theirs).decode().splitlines()
    # The times at which the histograms were made are left out.
    kept = [line for line in lines if "_created" not in line]
    assert generate_latest(ours).decode().splitlines() == kept
