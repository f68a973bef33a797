"""The lines of a kernel, with what each costs."""

from nki_lab.views.registry import Needs, View
from nki_lab.views.source.model import source_instructions, source_parts
from nki_lab.views.source.picture import source_picture
from nki_lab.views.source.text import source_text

VIEW = View(
    name="source",
    title="Source",
    needs=Needs.TIMES | Needs.PROGRAM,
    text=source_text,
    words="Lines of the kernel, each with a bar of its time by engine,",
    parts={"source": source_parts, "source/instructions": source_instructions},
    first=("source",),
    saved=("source/instructions",),
    picture=source_picture,
)
