#!/usr/bin/env bash
# A sweep on a Slurm cluster: sbatch slurm.sh. Two ways, the same results.
#SBATCH --job-name=sweep
#SBATCH --ntasks=32
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail

# One job of many ranks (a build with Open MPI): rows go to whichever rank is free. A job that was killed and queued
# again goes on where it ended.
srun trainyard sweep study.toml -o results --resume

# Or a job array, without MPI: `sbatch --array=1-16 --ntasks=1 slurm.sh`, with this line in place of the one above,
#     trainyard sweep study.toml -o "shard-$SLURM_ARRAY_TASK_ID" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --resume
# and once all are done
#     trainyard merge shard-* -o results
