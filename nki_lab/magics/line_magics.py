"""`%nki_target`, `%nki_explain` and `%nki_doctor`."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from nki_lab.choices import TARGET, Choices, choose, whose_choice
from nki_lab.dialects import DIALECTS
from nki_lab.errors import UnknownTopic
from nki_lab.explain.doctor import Check, examine
from nki_lab.explain.pages import explain
from nki_lab.session.reading import parse_line


@magics_class
class LineMagics(Magics):
    """The line magics beside `%nki`."""

    @no_var_expand
    @line_magic
    def nki_target(self, line: str) -> None:
        """Show the chip kernels are compiled for, or choose one for this session.

        %nki_target         shows it
        %nki_target trn2    chooses; `%%nki --target NAME` wins over it for one cell
        """
        name = line.strip()
        if name:
            choose(TARGET, name, "%nki_target")
        choices = Choices.current()
        print(f"target {choices.chip.name} ({choices.chip.core_name}), {whose_choice()}")
        for dialect in DIALECTS:
            chip = choices.with_standard(dialect.standard).chip
            if chip is not choices.chip:
                print(f"kernels of {dialect.title} run on {chip.name} ({chip.core_name})")

    @no_var_expand
    @line_magic
    def nki_explain(self, line: str) -> None:
        """Explain an error code, an instruction, a function of nki.language, an option or a word.

        %nki_explain NKI203
        %nki_explain nc_matmul
        %nki_explain --check
        %nki_explain psum
        """
        if not line.strip():
            raise UnknownTopic(
                "%nki_explain needs the name of something to explain",
                help="for example %nki_explain NKI203, or %nki_explain --check",
            )
        print(explain(line.strip(), Choices.current().chip))

    @no_var_expand
    @line_magic
    def nki_doctor(self, line: str) -> None:
        """Test this installation: versions, the JupyterLab extension, one run on the simulator."""
        parse_line("%nki_doctor", line)
        kernel = Check("IPython kernel", True, type(self.shell).__name__)
        checks = examine((kernel,))
        print(checks.text())
        checks.require()
