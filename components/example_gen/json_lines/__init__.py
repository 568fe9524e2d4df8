"""Lines of JSON: blocks of whole lines, read by pyarrow where it is certain, else one by one."""
