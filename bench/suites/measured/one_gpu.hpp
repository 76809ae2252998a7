#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "rows.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard::bench {

/// Predicted training step of a built-in network on one GPU, or on one of several tensor ranks: the sum of its op times
/// by the standard costs.
struct OneStep {
  double passes = 0, update = 0;            // seconds of forward and backward pass; of the optimizer
  std::vector<RankCollective> collectives;  // among the ranks; not included in the times
  double whole() const { return passes + update; }
  std::string rests_on;  // cost source of most of the passes' time: "form" (cost/op_cost.hpp)
};

/// Predicted steps of networks, with a cache.
class OneGpu {
 public:
  /// `roofline`: uses the costs of `--costs roofline` instead of kernel forms.
  explicit OneGpu(bool roofline = false) : roofline_(roofline) {}
  /// The step on the row's kind of GPU, in the row's precision: fp32 without TF32, tf32, or 16 bit. Throws InputError
  /// if the kind is not built in.
  const OneStep& step(const std::string& network, const MeasuredRow& row, Optimizer optimizer = Optimizer::sgd,
                      std::size_t ranks = 1);

 private:
  bool roofline_;
  std::map<std::tuple<std::string, std::string, std::string, Optimizer, std::size_t>, OneStep> known_;
};

}  // namespace trainyard::bench
