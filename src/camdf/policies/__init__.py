"""Every policy of the paper, and the document that a fitted one becomes."""
