"""What did an earlier session decide about the same program, and where is this one's decision kept?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from nki_lab.compiler.artifact import facts_hash
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.plan import NoPlan, apply_plan, plan_of
from nki_lab.compiler.store import Store, own_version, store_of
from nki_lab.ir.nodes import Kernel
from nki_lab.ir.program_digest import NoDigest, program_digest

#: Smaller programs go through the passes in less time than a file takes.
MIN_INSTRUCTIONS = 2_000


@dataclass(frozen=True)
class StoredPlan:
    """The place in the store of what passes make of some traced programs.

    Attributes:
        traced: the program of each core.
        store: the store.
        key: digest of the programs, the chip, the choices, and this nki_lab.
    """

    traced: tuple[Kernel, ...]
    store: Store
    key: str

    @classmethod
    def of(cls, traced: Sequence[Kernel], options: CompileOptions) -> StoredPlan | None:
        """Return the place; None where nothing is kept of such programs."""
        if sum(len(kernel.instructions) for kernel in traced) < MIN_INSTRUCTIONS:
            return None
        store = store_of(options.store)
        if store is None:
            return None
        try:
            digests = [program_digest(kernel) for kernel in traced]
        except NoDigest:
            return None
        facts = own_version(), facts_hash(traced[0].target), options.choices, digests
        return cls(tuple(traced), store, hashlib.sha256(repr(facts).encode()).hexdigest())

    def find(self) -> list[Kernel] | None:
        """Return what the passes make of the programs, from an earlier session; None where it is not known."""
        plans = self.store.get(self.key)
        try:
            return None if plans is None else apply_plan(self.traced, plans)
        except NoPlan:
            return None

    def keep(self, compiled: Sequence[Kernel]) -> None:
        """Keep what the passes made of the programs."""
        try:
            self.store.put(self.key, plan_of(self.traced, compiled))
        except NoPlan:
            pass
