torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py \
  --pipeline-model-parallel-size 2 --num-layers 4 --pipeline-model-parallel-layout "E(t|)*3,tL" \
  --micro-batch-size 2 --recompute-granularity full # one
