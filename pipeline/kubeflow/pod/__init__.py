"""The parts of a pod's work: its invocation, paths and parameters, the exchange of artifacts, and the stored state."""
