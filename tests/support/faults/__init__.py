"""What fails or is killed: processes, disks, power, and load that goes on meanwhile."""
