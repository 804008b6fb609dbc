"""One module a framework: each hands the framework's tools to a gate, and the gate's answer back."""
