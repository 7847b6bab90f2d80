"""How are the equations made fast? The basement: C++ for the processor at hand, its compilation, its doors for torch;
Triton for a GPU; the allocator.

Nothing here is needed to understand the equations of `nn/`: each of them is computed as it is written there in float64,
and by what lies here in other types, tested equal. `compiled` imports no torch; `calls` holds what is loaded.
"""
