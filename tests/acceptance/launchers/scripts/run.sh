#!/bin/bash
# As sites have it: mpirun starts this once on each node, and this starts torchrun.
HOST=$1
NODES=$2
exec python -m torch.distributed.run --nproc_per_node=1 --nnodes="$NODES" \
  --node_rank="$OMPI_COMM_WORLD_RANK" --master_addr="$HOST" --master_port="$MASTER_PORT" \
  multinode.py 3 1
