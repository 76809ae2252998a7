#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainyard/cost/kernel_costs.hpp"

namespace trainyard::bench {

/// A published time of a kernel, or of all kernels of an op, with its op and its kind of GPU.
struct PublishedKernel {
  std::string type, signature, kind;
  double flops = 0, bytes = 0, seconds = 0;
  KernelFloor floor = KernelFloor::isolated;  // floor that applies to the measurement
};

/// A kernel with its class in the table: "linear, fp16".
struct NamedKernel {
  std::string name;
  PublishedKernel kernel;
};

/// Forward and backward times of ops that Aceso ran one after the other on a V100-SXM2 of 32 GB
/// (formats/aceso/profiled.tar.gz; Liu et al., EuroSys 2024): ops of GPT and T5 in float16 on 1 to 8 tensor ranks,
/// without those whose times include a collective, and convolutions and ReLUs of wide ResNets in float32 on one GPU.
/// Throws InputError ("published") if the file is no tar archive, or a line of it is malformed.
std::vector<NamedKernel> aceso_kernels(const std::filesystem::path& archive);

}  // namespace trainyard::bench
