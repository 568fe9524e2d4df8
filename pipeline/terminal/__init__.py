"""What a run says on the terminal: a live line for each component, or plain lines, and the last words.

with open_display() as display:
    display.update(record)          # at each change
print_summary(Output(), record, verdict, report)
"""

from headrace.pipeline.terminal.console import Output
from headrace.pipeline.terminal.display import Display, Silent, open_display
from headrace.pipeline.terminal.logs import failure_text, last_lines
from headrace.pipeline.terminal.summary import print_summary, summary

__all__ = ["Display", "Output", "Silent", "failure_text", "last_lines", "open_display", "print_summary", "summary"]
