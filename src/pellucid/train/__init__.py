"""`pellucid train`: train.py goes from end to end, loop.py from update to update; the rest is what they stand on."""
