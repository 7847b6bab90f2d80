"""Which part of a run a text belongs to, where shares of the training data are set aside.

u_part(text) = blake2b(canonical(text), personalised with the part) / 2⁶⁴ puts every text at a place in [0, 1], and
twins (see canonical.py) at the same one. The test is taken first: u_test < test. Of what it leaves, the validation:
u_validation < validation. The rest is for training. So the test does not move when the validation changes; the division
is the same in every run, under every tokenizer and on every machine; and nothing need be held or shuffled.
"""

import hashlib
from dataclasses import dataclass

from pellucid.data.canonical import canonical

SCHEME = 2
SCHEMES = (1, SCHEME)


@dataclass(frozen=True)
class Division:
    """A way to divide texts.

    Args:
        validation: the share of what the test leaves, 0 to 1.
        test: the share of all, 0 to 1.
        scheme: 2. Runs that began before there were schemes have 1: one hash of the text as it stands, whose lowest
            places are for the validation, and the next for the test.
    """

    validation: float = 0.0
    test: float = 0.0
    scheme: int = SCHEME

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of those that are not empty by their share."""
        return ("train", *(("validation",) if self.validation else ()), *(("test",) if self.test else ()))

    def part_of(self, text: str) -> str:
        """ "train", "validation" or "test": one for every text."""
        if self.scheme == 1:
            at = place(text)
            return "validation" if at < self.validation else "test" if at < self.validation + self.test else "train"
        form = canonical(text)
        if self.test and place(form, "test") < self.test:
            return "test"
        return "validation" if self.validation and place(form, "validation") < self.validation else "train"


def place(text: str, part: str = "") -> float:
    """The place of a text in [0, 1], spread evenly over texts; for each part another one."""
    hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=part.encode())
    return int.from_bytes(hashed.digest()) / 2**64
