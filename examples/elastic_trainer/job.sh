#!/bin/sh
# A batch script for Slurm: one rank for each GPU of the allocation, however large it is this time.
#   sbatch --gpus-per-node=1 --flyball=elastic,kind=toy,iterations=100,min=1,max=4 job.sh --iterations 100 --checkpoint FILE
#SBATCH --requeue
#SBATCH --open-mode=append
# Slurm copies this script; the folder of the others is where it is submitted from, unless ELASTIC_TRAINER names it.
folder=${ELASTIC_TRAINER:-$SLURM_SUBMIT_DIR}
# After a job has been queued again with another size, SLURM_NTASKS is still the old one. These are not.
ranks=$((SLURM_JOB_NUM_NODES * SLURM_GPUS_ON_NODE))
MASTER_ADDR=$(hostname)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
date +begin=%s.%N
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$ranks" --ntasks-per-node="$SLURM_GPUS_ON_NODE" --overcommit \
  "${PYTHON:-python3}" "$folder/train.py" "$@"
status=$?
date +end=%s.%N
exit "$status"
