"""The gate as a small service: `camdf serve camdf.toml`. Needs the extra `serve`."""
