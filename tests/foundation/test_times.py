from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hummingbit.foundation.times import now


def test_the_time_is_that_of_utc_with_the_precision_asked_for() -> None:
    before = datetime.now(UTC)
    shown = now()
    moment = datetime.fromisoformat(shown)
    assert moment.utcoffset() == timedelta(0)
    assert before - timedelta(milliseconds=1) <= moment <= datetime.now(UTC)
    assert len(shown) == len("2024-05-01T12:00:00.123+00:00")
    assert len(now("seconds")) == len("2024-05-01T12:00:00+00:00")
