"""`headrace doctor`: what is wrong with this environment, and how to mend it.

Each check is a function that returns findings; what has to be imported is imported in another process, so that a
library that crashes the interpreter is a finding too.
"""

from headrace.pipeline.doctor.checks import examine, main
from headrace.pipeline.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "examine", "main"]
