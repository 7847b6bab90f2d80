"""What will a run take? Parameters, operations, memory, disk and time, found out before it runs."""
