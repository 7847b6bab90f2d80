"""How are weights found? train.py goes from end to end, loop.py from update to update; the rest they stand on."""
