"""One static page on which the cut can be watched, and what that page asks the service for."""

from camdf.service.playground.look import routes

__all__ = ["routes"]
