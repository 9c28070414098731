"""What a script's command line and output say."""
