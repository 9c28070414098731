"""The places where replicas run: each backend sees, starts and stops; none decides."""
