"""The choices that change what the compiler does."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.settings import Settings


@dataclass(frozen=True)
class CompileOptions:
    """Choices of one compilation.

    Attributes:
        capacity: "error", or "finding" to run a kernel that does not fit in addresses past the end.
        strict: findings are errors.
        allow: codes of what today's NKI refuses and this kernel may do.
        grid: shape of the launch grid, `(2,)` for `kernel[2]`; `()` where the kernel is called without one.
        record: keep the program as it was after each pass.
        skip_passes: names of passes to leave out, of those that may be.
        schedule: (name, names it waits for) of instructions, as `kernel.with_schedule` was given them.
    """

    capacity: str = "error"
    strict: bool = False
    allow: tuple[str, ...] = ()
    grid: tuple[int, ...] = ()
    record: bool = True
    skip_passes: tuple[str, ...] = ()
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def from_settings(cls, settings: Settings) -> CompileOptions:
        """Take the choices the environment makes."""
        return cls(
            capacity=settings.capacity,
            strict=settings.strict,
            allow=settings.allow,
            skip_passes=settings.skip_passes,
        )
