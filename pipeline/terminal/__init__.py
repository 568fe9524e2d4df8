"""How a run is shown: a live table or plain lines while it runs, and a summary at the end.

with open_display() as display:
    display.update(record)          # at each change
print_summary(StandardOutput(), record, verdict, report)
"""

from headrace.pipeline.terminal.display import Display, SilentDisplay, StandardOutput
from headrace.pipeline.terminal.live import open_display
from headrace.pipeline.terminal.logs import failure_text, last_lines, own_code
from headrace.pipeline.terminal.summary import print_summary, summary

__all__ = [
    "Display",
    "SilentDisplay",
    "StandardOutput",
    "failure_text",
    "last_lines",
    "open_display",
    "own_code",
    "print_summary",
    "summary",
]
