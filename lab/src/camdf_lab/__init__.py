"""The research behind camdf: benchmark domains, the paper's tables replayed, studies past them, other packages."""
