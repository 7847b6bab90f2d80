"""What a server of models refuses, and a network that is not there: one clear error each."""

from __future__ import annotations

