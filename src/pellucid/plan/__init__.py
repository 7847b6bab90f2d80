"""What a run will take, found out before it runs: parameters, operations, memory, disk and time."""
