from __future__ import annotations

import pytest

from experiments.ssb_vae.printed_tables import printed_table
from experiments.ssb_vae.significance import print_tests_over_shares


def test_shares_of_labels_are_the_blocks_of_table_2(capsys: pytest.CaptureFixture[str]) -> None:
    tied = {"psh-gs": "ssb-vae"}
    records = [
        {
            "method": method,
            "supervision": share,
            "n_bits": 32,
            "p100": value,
            "p100_expected": printed_table("20news", 32)[tied.get(method, method)][share],
        }
        for method, values in printed_table("20news", 32).items()
        for share, value in zip(range(10), values, strict=True)
    ]
    print_tests_over_shares(records)
    header, served, *tests = capsys.readouterr().out.strip().splitlines()
    assert header == "32 bits, 10 shares of labels as blocks, as in the paper's Table II"
    assert served.startswith("  as served: Friedman p = 0.00011; mean ranks: ")
    assert tests[0] == "    against psh-gs   p = 6.4e-05 (Nemenyi)"
    assert tests[1] == "    against vdsh-s   p = 0.037 (Nemenyi)"
    assert tests[2].startswith("  tie-averaged: Friedman p = ")
    assert "psh-gs 1.50, ssb-vae 1.50, vdsh-s 3.00" in tests[2]
    assert tests[3] == "    against psh-gs   p = 1 (Nemenyi)"


def test_one_share_or_two_methods_have_no_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        {
            "method": method,
            "supervision": share,
            "n_bits": 32,
            "p100": value,
            "p100_expected": value,
        }
        for method, values in printed_table("20news", 32).items()
        for share, value in zip(range(10), values, strict=True)
    ]
    print_tests_over_shares(records[:20])
    print_tests_over_shares([record for record in records if record["supervision"] == 0])
    assert capsys.readouterr().out == ""
