"""The frozen values that every layer speaks in: job, replica, status, resources, quantities."""
