#!/bin/bash
#SBATCH --job-name=two-nodes
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --time=0:30:00

echo "on $SLURM_NNODES nodes"
mpirun -np 2 --map-by ppr:1:node ./run.sh "$MASTER_ADDR" 2
