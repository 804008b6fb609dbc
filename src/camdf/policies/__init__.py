"""Every policy, the registry of their names, and the document that a fitted one becomes."""
