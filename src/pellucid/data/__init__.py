"""Where do examples come from? Sources, splits, tokenizers, ids, batches; generated/ makes what is not read."""
