#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/loader.hpp"

namespace trainyard::cuda {

struct CudaOptions {
  LibrarySource* libraries = nullptr;  // null: the system's; tests give a fake
  bool gate = true, graph = false;     // as in ExecuteOptions, from the second step on
  PartLinks part_links = PartLinks::emulated;
  bool tf32 = false;           // products and convolutions of 32-bit floats on tensor cores
  bool without_cudnn = false;  // without cuDNN: convolutions as columns and products, the rest by own kernels
};

/// Runs each GPU of the cluster on a GPU of this machine; if there are too few, on a part of GPU 0 (green contexts,
/// between which tensors move as `part_links` says). CPUs run on cores of the host. Ops compute on real data by cuBLAS,
/// cuDNN and the kernels of kernels/cuda, or by those of the cpu backend; transfers are copies. Everything runs in the
/// schedule's simulated order. Without a recipe an op is a kernel that takes the problem's time.
///
/// Throws MissingError, worded as by require_gpus, without driver, runtime, GPU, kernels for it (embedded, or by NVRTC)
/// or cuBLAS. prepare() throws InputError ("unsupported-device", "unsupported-op", "shared-parameter", "graph-launch",
/// "fair-links", "splits"). It throws MissingError for convolutions, average pools and softmax without cuDNN, unless
/// `without_cudnn`: other kernels are several times slower at convolutions.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

}  // namespace trainyard::cuda
