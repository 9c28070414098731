"""Trains boosted trees with XGBoost: each rank holds its own rows, histograms are summed over all."""

import os
import socket

import numpy as np
import xgboost as xgb
from xgboost.tracker import RabitTracker

ROWS = 4000  # on each rank


def main() -> None:
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    tracker = start_tracker(address, port, world) if rank == 0 else None

    # The task id decides the rank within XGBoost, so that it equals ours.
    meeting = {
        "dmlc_tracker_uri": socket.gethostbyname(address),
        "dmlc_tracker_port": port,
        "dmlc_task_id": str(rank),
        "dmlc_retry": 10,
    }
    with xgb.collective.CommunicatorContext(**meeting):
        train(rank, world)
    if tracker:
        tracker.wait_for()


def start_tracker(address: str, port: int, world: int) -> RabitTracker:
    """Opens the meeting point on the master, at the address that everybody was given."""
    host = socket.gethostbyname(address)
    tracker = RabitTracker(n_workers=world, host_ip=host, port=port, sortby="task")
    tracker.start()
    return tracker


def train(rank: int, world: int) -> None:
    settings = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 4, "nthread": 1}
    rows = xgb.DMatrix(*samples(seed=rank))
    booster = xgb.train(settings, rows, num_boost_round=20, verbose_eval=False)

    features, labels = samples(seed=1000)  # held out: no rank has trained on them
    accuracy = float(((booster.predict(xgb.DMatrix(features)) > 0.5) == labels).mean())
    total = int(xgb.collective.allreduce(np.array([rows.num_row()]), xgb.collective.Op.SUM)[0])
    if xgb.collective.get_rank() == 0:
        print(f"accuracy: {accuracy:.3f} after {total} rows on {world} ranks", flush=True)
    if accuracy < 0.95 or total != ROWS * world:
        raise SystemExit(f"rank {rank}: accuracy {accuracy:.3f}, {total} rows")


def samples(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns points of a plane, true in two opposite quarters: no single split can tell them apart."""
    features = np.random.default_rng(seed).uniform(-1.0, 1.0, size=(ROWS, 2))
    return features, features[:, 0] * features[:, 1] > 0


if __name__ == "__main__":
    main()
