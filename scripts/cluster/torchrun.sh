#!/usr/bin/env bash
# Trains under torchrun with one task per device, on one host or on several; start it once on each host.
# usage: scripts/cluster/torchrun.sh CONFIG [KEY=VALUE ...]
#   NPROC_PER_NODE=8 scripts/cluster/torchrun.sh configs/mnist/ffn.yaml
#   NNODES=2 RDZV_ENDPOINT=node1:29400 RDZV_ID=job7 NPROC_PER_NODE=8 scripts/cluster/torchrun.sh configs/mnist/ffn.yaml
# TRAINCTL is the program (default 'trainctl'), TORCHRUN is torchrun, TRAINCTL_OUT a folder that all nodes see (default 'runs').
set -euo pipefail

if [ $# = 0 ]; then
  echo "usage: scripts/cluster/torchrun.sh CONFIG [KEY=VALUE ...]" >&2
  exit 2
fi
out=${TRAINCTL_OUT:-runs}
nodes=${NNODES:-1}
options=(--nnodes "$nodes" --nproc-per-node "${NPROC_PER_NODE:-2}" --max-restarts "${MAX_RESTARTS:-0}")
if [ "$nodes" = 1 ]; then
  options+=(--standalone)
else
  options+=(--rdzv-backend c10d --rdzv-endpoint "${RDZV_ENDPOINT:?the first host and a port, as in node1:29400}"
    --rdzv-id "${RDZV_ID:?a name that this job has for itself}")
fi
# The folder is fixed, so that a restart by torchrun resumes the run in it.
run_dir=${TRAINCTL_RUN_DIR:-$out/torchrun-${RDZV_ID:-$(date +%Y%m%d-%H%M%S)}}

# torchrun exits with 1 whichever code a failed task had; result.json in the run folder has the code of the run.
exec "${TORCHRUN:-torchrun}" "${options[@]}" --no-python \
  "${TRAINCTL:-trainctl}" run "$@" --out "$out" --run-dir "$run_dir" --resume auto
