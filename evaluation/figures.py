"""How figures of a report are written for people."""

from __future__ import annotations


def format_share(value: float | None) -> str:
    """Write a share with four digits, an absent one as a dash."""
    return "–" if value is None else f"{value:.4f}"


def format_interval(interval: tuple[float, float] | None) -> str:
    """Write an interval of shares."""
    return "–" if interval is None else f"{interval[0]:.4f} – {interval[1]:.4f}"


def format_p_value(value: float) -> str:
    """Write a p-value; what is below a thousandth is said to be so."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_probability(value: float) -> str:
    """Write a p-value as part of a sentence: ``p = 0.012`` or ``p < 0.001``."""
    shown = format_p_value(value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"
