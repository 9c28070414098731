"""Jobs on this machine: their run directories, read and edited."""
