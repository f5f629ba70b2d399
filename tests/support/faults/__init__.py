"""Faults: killed processes, full disks, power cuts, and load during them."""
