"""Names the labels by which the Kubeflow contract knows pods and services."""

from __future__ import annotations

PREFIX = "training.kubeflow.org/"
OPERATOR_NAME = PREFIX + "operator-name"
JOB_NAME = PREFIX + "job-name"
REPLICA_TYPE = PREFIX + "replica-type"
REPLICA_INDEX = PREFIX + "replica-index"
JOB_ROLE = PREFIX + "job-role"

LEADER = "master"
"""The value of `JOB_ROLE` for a replica that plays the master role."""
LAUNCHER = "launcher"
"""The role of a replica that starts commands in the others, in every version that has one."""

GROUP_NAME = "group_name"
MPI_JOB_NAME = "mpi_job_name"
MPI_ROLE_TYPE = "mpi_role_type"
