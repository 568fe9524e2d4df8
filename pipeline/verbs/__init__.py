"""The verbs of the command line: one file each, with the verb's options and its last words."""
