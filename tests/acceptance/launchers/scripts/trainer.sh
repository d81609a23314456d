#!/bin/bash
#SBATCH --job-name=trainer
#SBATCH -N 1 -n 1
#SBATCH --time=0:30:00

python finetune.py
