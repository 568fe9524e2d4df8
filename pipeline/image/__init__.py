"""The image that the pods of a pipeline run in: what goes into it, who builds it, and how large it is."""
