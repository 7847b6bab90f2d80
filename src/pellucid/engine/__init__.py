"""How is decoding fast? Weights packed once, a layer as a list of operations, a search in one call."""
