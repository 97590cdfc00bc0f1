#!/bin/sh
# A batch script for Slurm: one rank for each GPU of the allocation, however large it is this time; and, where the job is
# to give nodes back while it runs, for each of those that it keeps.
#   sbatch --gpus-per-node=1 --flyball=elastic,kind=toy,iterations=100,min=1,max=16,shrinks \
#     job.sh --iterations 100 --checkpoint FILE
#SBATCH --requeue
#SBATCH --open-mode=append
# Slurm copies this script; the folder of the others is where it is submitted from, unless ELASTIC_TRAINER names it.
folder=${ELASTIC_TRAINER:-$SLURM_SUBMIT_DIR}
# After a job has been queued again with another size, SLURM_NTASKS is still the old one. These are not.
nodes=$SLURM_JOB_NODELIST
count=$SLURM_JOB_NUM_NODES
# Where rank 0, which runs on this node, writes the nodes with which to go on, and how many iterations are done.
KEPT_NODES=$(mktemp)
export KEPT_NODES
trap 'rm -f "$KEPT_NODES"' EXIT
MASTER_ADDR=$(hostname)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
date +begin=%s.%N
while :; do
  srun --nodes="$count" --nodelist="$nodes" --ntasks="$((count * SLURM_GPUS_ON_NODE))" \
    --ntasks-per-node="$SLURM_GPUS_ON_NODE" --overcommit "${PYTHON:-python3}" "$folder/train.py" "$@"
  status=$?
  if [ "$status" -ne 0 ] || ! read -r nodes iteration <"$KEPT_NODES"; then break; fi
  : >"$KEPT_NODES"
  count=$(echo "$nodes" | tr , '\n' | wc -l)
  # No rank is left on the other nodes. Without this they would be the job's until rank 0 reports again.
  "${FLYBALL:-flyball}" cluster keeps --gpus "$((count * SLURM_GPUS_ON_NODE))" --iteration "$iteration"
done
date +end=%s.%N
exit "$status"
