#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

std::array<std::span<const OpKernels>, 19> tables() {
  return {unary_kernels(),     operand_kernels(), product_kernels(),       window_kernels(),   pool_kernels(),
          row_kernels(),       layout_kernels(),  normalization_kernels(), indexing_kernels(), reduction_kernels(),
          recurrent_kernels(), source_kernels(),  gated_kernels(),         einsum_kernels(),   resize_kernels(),
          attention_kernels(), expert_kernels(),  divided_kernels(),       norm_kernels()};
}

struct Block {
  std::unique_ptr<float[]> data;
  std::size_t size = 0;
};
thread_local std::deque<Block> blocks;
thread_local std::size_t used = 0;

}  // namespace

const OpKernels* find_kernels(std::string_view type) {
  for (const auto& table : tables())
    for (const OpKernels& kernels : table)
      if (kernels.type == type) return &kernels;
  return nullptr;
}

std::vector<std::string_view> kernel_types() {
  std::vector<std::string_view> types;
  for (const auto& table : tables())
    for (const OpKernels& kernels : table) types.push_back(kernels.type);
  std::sort(types.begin(), types.end());
  return types;
}

float* Scratch::floats(std::size_t count) {
  if (used == blocks.size()) blocks.emplace_back();
  Block& block = blocks[used++];
  if (block.size < count) {
    block.data = std::make_unique<float[]>(count);
    block.size = count;
  }
  return block.data.get();
}

void Scratch::reset() { used = 0; }

}  // namespace trainyard::cpu
