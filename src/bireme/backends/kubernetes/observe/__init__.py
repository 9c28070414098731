"""What pods and nodes tell about replicas: pure functions of watched objects."""
