"""Fits a line with PaddlePaddle: each worker draws its own samples, DataParallel averages the gradients."""

import paddle
import paddle.distributed as dist

STEPS = 100


def main() -> None:
    dist.init_parallel_env()  # reads what paddle.distributed.launch made of PADDLE_MASTER and PADDLE_NNODES
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(rank)
    line = paddle.nn.Linear(1, 1)
    model = paddle.DataParallel(line)  # starts with rank 0's weights everywhere
    optimizer = paddle.optimizer.SGD(learning_rate=0.2, parameters=model.parameters())

    for step in range(1, STEPS + 1):
        x = paddle.uniform([64, 1], min=-1.0, max=1.0)
        loss = ((model(x) - (3.0 * x + 2.0)) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 25 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    slope, offset = line.weight.item(), line.bias.item()
    print(f"worker {rank} of {world} found y = {slope:.2f} x + {offset:.2f}", flush=True)
    if abs(slope - 3.0) > 0.1 or abs(offset - 2.0) > 0.1:
        raise SystemExit("the line is wrong: it should be y = 3 x + 2")


if __name__ == "__main__":
    main()
