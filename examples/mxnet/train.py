"""A network learns a function from two workers, whose gradients the servers of MXNet's store add up."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

STEPS, BATCH = 100, 64

# The scheduler and the servers stay within the import until the workers are done.
store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers

draws = np.random.RandomState(rank)  # each worker has data of its own
weights = np.array([2.0, -3.4, 1.7, 0.3], dtype="float32")


def batch() -> tuple[nd.NDArray, nd.NDArray]:
    inputs = draws.normal(size=(BATCH, 4)).astype("float32")
    return nd.array(inputs), nd.array(inputs @ weights + 4.2)


mx.random.seed(0)
net = gluon.nn.Dense(1)
net.initialize(mx.init.Normal(0.1))
loss_of = gluon.loss.L2Loss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store)

for step in range(1, STEPS + 1):
    inputs, wanted = batch()
    with autograd.record():
        loss = loss_of(net(inputs), wanted)
    loss.backward()
    trainer.step(BATCH * workers)
    if step % 20 == 0:
        print(f"worker {rank} of {workers}: step {step} loss {float(loss.mean().asscalar()):.4f}", flush=True)

learnt = net.weight.data().asnumpy()[0]
if not np.allclose(learnt, weights, atol=0.1):
    raise SystemExit(f"the weights are {learnt}, not {weights}")
print(f"worker {rank}: learnt {', '.join(f'{value:.1f}' for value in learnt)}")
