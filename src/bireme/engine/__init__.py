"""The step that carries a decision out: see, decide, record, act."""
