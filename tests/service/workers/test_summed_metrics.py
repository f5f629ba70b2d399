from __future__ import annotations

from hummingbit.service.http.monitoring import merge_metrics

ONE = """\
# HELP hummingbit_waiting_requests Requests that wait for a turn.
# TYPE hummingbit_waiting_requests gauge
hummingbit_waiting_requests 2.0
# HELP hummingbit_collection_documents Documents of a collection.
# TYPE hummingbit_collection_documents gauge
hummingbit_collection_documents{collection="a"} 5.0
# HELP hummingbit_refused_requests_total Requests that were answered 429.
# TYPE hummingbit_refused_requests_total counter
hummingbit_refused_requests_total 3.0
# HELP seconds Times.
# TYPE seconds histogram
seconds_bucket{le="0.1",stage="encode"} 1.0
seconds_bucket{le="+Inf",stage="encode"} 2.0
seconds_count{stage="encode"} 2.0
seconds_sum{stage="encode"} 0.5
"""


def test_counts_and_times_are_added_and_sizes_are_not() -> None:
    other = ONE.replace("5.0", "6.0").replace('"encode"', '"search"')
    lines = merge_metrics([ONE, ONE, other]).decode().splitlines()
    assert "hummingbit_waiting_requests 6.0" in lines
    assert 'hummingbit_collection_documents{collection="a"} 6.0' in lines
    assert "hummingbit_refused_requests_total 9.0" in lines
    assert 'seconds_bucket{le="0.1",stage="encode"} 2.0' in lines
    assert 'seconds_count{stage="encode"} 4.0' in lines
    assert 'seconds_sum{stage="encode"} 1.0' in lines
    assert 'seconds_count{stage="search"} 2.0' in lines


def test_one_process_is_shown_as_it_is() -> None:
    assert merge_metrics([ONE]).decode() == ONE
