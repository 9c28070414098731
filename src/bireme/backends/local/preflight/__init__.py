"""What a job needs of this machine, checked and supplied before it starts."""
