"""The custom resources and the operator's own objects, and how they get into a cluster."""
