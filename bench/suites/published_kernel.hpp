#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainyard/cost/kernel_costs.hpp"

namespace trainyard::bench {

/// A kernel, or the kernels of an op, that somebody timed: the op that it is, and where.
struct PublishedKernel {
  std::string type, signature, kind;
  double flops = 0, bytes = 0, seconds = 0;
  KernelFloor floor = KernelFloor::isolated;  // of its measurement
};

/// A kernel and the class of a table that it is in: "linear, fp16".
struct NamedKernel {
  std::string name;
  PublishedKernel kernel;
};

/// Ops of layers that Aceso timed one after the other on a V100-SXM2 of 32 GB (formats/aceso/profiled.tar.gz; Liu et
/// al., EuroSys 2024), forward and backward: GPT and T5 in float16 on 1 to 8 tensor ranks, of which those whose times
/// hold no collective, and convolutions and ReLUs of wide ResNets in float32 on one GPU. Throws InputError
/// ("published") where the file is no such archive, or a line is none of its.
std::vector<NamedKernel> aceso_kernels(const std::filesystem::path& archive);

}  // namespace trainyard::bench
