"""How soon does a job do its first step on real nodes, and how soon does it go on after a loss."""
