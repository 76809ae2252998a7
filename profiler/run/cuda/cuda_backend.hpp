#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/loader.hpp"

namespace trainyard::cuda {

struct CudaOptions {
  LibrarySource* libraries = nullptr;  // null: the system's; a fake stands in for them in tests
  bool gate = true, graph = false;     // of ExecuteOptions, from the second step on
  PartLinks part_links = PartLinks::emulated;
  bool tf32 = false;           // of 32-bit floats: products and convolutions by tensor cores
  bool without_cudnn = false;  // where it is not there: convolutions by columns and products, the rest by own kernels
};

/// Runs each GPU of the cluster on one of this machine, or, where there are more than it has, on a part of GPU 0 (green
/// contexts; tensors get from one to another as `part_links` says), and each CPU on a core of the host: ops with real
/// data by cuBLAS and the kernels of kernels/cuda, or those of the cpu backend, transfers by copies, all in the
/// schedule's simulated order. Without a recipe an op is a kernel that takes the time that the problem gives it.
///
/// Throws MissingError: no driver, no runtime, no GPU, no kernels for it (embedded, or by NVRTC), no cuBLAS, in the
/// words of require_gpus. prepare() throws InputError ("unsupported-device", "unsupported-op", "shared-parameter",
/// "fair-links", "splits"), and MissingError for convolutions, average pools and softmax without cuDNN, which
/// other kernels, several times slower where they convolve, would stand for.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

}  // namespace trainyard::cuda
