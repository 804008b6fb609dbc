"""The tables and figures of the paper, declared: one file a table, or a table and its repetitions."""
