"""Programs that mpirun calls in place of ssh: on this machine the agent, in a pod the exec API."""
