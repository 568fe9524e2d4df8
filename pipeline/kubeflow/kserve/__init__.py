"""Points an InferenceService of KServe to the version that was pushed, watches it, and takes a failed one back."""
