"""The first floor: Figure 1, assembled from the parts in nn."""
