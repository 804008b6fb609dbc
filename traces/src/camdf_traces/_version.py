"""The one place that names the version: that of camdf, with which it is released."""

__version__ = "0.2.0"
