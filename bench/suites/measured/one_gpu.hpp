#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "rows.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard::bench {

/// A training step of a built-in network on one GPU, one op after another, by the standard costs; of several tensor
/// ranks that of one.
struct OneStep {
  double passes = 0, update = 0;            // seconds: forward and backward; optimizer
  std::vector<RankCollective> collectives;  // among the ranks: not part of the times
  double whole() const { return passes + update; }
  std::string rests_on;  // the source of most of the passes' time: "form" (cost/op_cost.hpp)
};

/// Steps of networks, each worked out once.
class OneGpu {
 public:
  /// `roofline`: the costs of `--costs roofline` in place of kernel forms.
  explicit OneGpu(bool roofline = false) : roofline_(roofline) {}
  /// At the row's kind of GPU and precision: fp32 without TF32, tf32, or 16 bit. Throws InputError where the kind is
  /// not built in.
  const OneStep& step(const std::string& network, const MeasuredRow& row, Optimizer optimizer = Optimizer::sgd,
                      std::size_t ranks = 1);

 private:
  bool roofline_;
  std::map<std::tuple<std::string, std::string, std::string, Optimizer, std::size_t>, OneStep> known_;
};

}  // namespace trainyard::bench
