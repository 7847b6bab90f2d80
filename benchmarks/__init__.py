"""Side by side with peers, one file a question. A claim of speed is a ratio in one run of one of these."""
