"""How fast are many jobs carried on: our operator beside bare senders and the Training Operator."""
