"""Looking inside: what attention did, recorded beside the fast path."""
