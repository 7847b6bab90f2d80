"""How does a model leave this house, and how does one come in? To the neighbours' formats and from them, held equal."""
