#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard::detail {

/// A signature, "Type(float32[2,3])->float32[2]", with extents that can be changed.
struct OpShapes {
  struct Tensor {
    std::string type;
    std::vector<std::int64_t> extents;

    bool of_numbers() const { return type.starts_with("float") || type.starts_with("bfloat") || type == "bool"; }
    /// The dimension of features: the second of four or more, else the last.
    std::size_t feature() const { return extents.size() >= 4 ? 1 : extents.size() - 1; }
    std::int64_t features() const { return extents.empty() ? 1 : extents[feature()]; }
    double count() const {
      double product = 1;
      for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
      return product;
    }
    /// The dimension of the sequence, of two or three: the last but one.
    std::size_t row() const { return extents.size() - 2; }
    bool has_rows() const { return extents.size() == 2 || extents.size() == 3; }
  };
  std::string head;
  std::vector<Tensor> reads, writes;

  static std::optional<OpShapes> parse(std::string_view text);
  std::string text() const;
};

/// What each op computes and each tensor is, of t ranks.
class Sharding {
 public:
  using Layout = RankLayout;
  using Way = RankWay;

  Sharding(const Graph& graph, std::size_t ranks, bool sequence);

  Way way(OpId op) const { return way_[op]; }
  Layout layout(TensorId tensor) const { return layout_[tensor]; }
  bool is_divided(OpId op) const { return way_[op] != Way::whole; }
  bool shares_rows(OpId op) const { return way_[op] == Way::rows; }
  bool is_loss(OpId op) const { return graph_.type(op) == "SoftmaxCrossEntropy" && way_[op] == Way::share; }
  const std::optional<OpShapes>& shapes(OpId op) const { return shapes_[op]; }
  const IdMap<OpId, Way>& ways() const { return way_; }
  const IdMap<TensorId, Layout>& layouts() const { return layout_; }

  /// What the op takes of an input.
  Layout taken(OpId op, TensorId tensor) const;
  /// It adds partial terms, or gradients of which some are partial and none a share.
  bool sums_partial(OpId op) const;
  /// The op's signature on a rank.
  std::string signature(OpId op) const;
  /// Share of the op's parameters and state that a rank holds.
  double held(OpId op) const;

 private:
  bool divides(std::int64_t extent) const;
  void divide(OpShapes::Tensor& tensor, std::size_t dimension) const;
  void divide_rows(OpShapes::Tensor& tensor) const;
  bool way_of_update(OpId op) const { return graph_.phase(op) == Phase::update; }

  /// Leaves of fewer heads than ranks one: of keys and values all of it, else a part of its rows, which are those of
  /// the queries that share it.
  bool divides_group(OpId op, OpShapes::Tensor& tensor, bool of_queries) const;

  // --- ways ---

  void decide(OpId op);
  /// An update of a share's gradients; a sum over tied copies (tie_copies) of which those that are made here are
  /// shares.
  bool updates_share(OpId op) const;
  Way forward_way(OpId op, const OpShapes& shapes) const;
  /// A product of queries, or of weights of values, that ranks have shares of, with keys or values of fewer heads than
  /// there are ranks: these are gathered, and each is read by several ranks.
  bool shares_queries(OpId op, const OpShapes& shapes) const;
  /// Heads of the softmax before a product of its weights with values, or behind one of queries with keys; 0: none.
  std::int64_t heads_of(OpId op) const;
  /// The forward op, where the op is one of shares_queries, or its gradient.
  OpId grouped(OpId op) const;
  /// False of keys and values of a grouped op, and of their gradients. `number`: among what its signature reads or
  /// writes. By position, as extents of keys may be those of queries.
  bool is_of_queries(OpId op, const OpShapes::Tensor& tensor, bool made, std::size_t number) const;
  /// Keys or values of a head that several ranks have.
  bool is_read_by_several(OpId op, TensorId tensor) const;
  /// [experts, rows, inner] times weights [experts, inner, outer].
  bool is_product_of_experts(OpId op, const OpShapes& shapes) const;
  /// The router of a mixture of experts: what chooses the largest of a few numbers a token is not divided.
  bool routes(OpId op) const;
  /// The largest inputs are rows, or can be at no cost: of partial terms and a whole tensor a rank takes its own. Sums
  /// of terms alone are left to what comes after.
  bool all_rows(OpId op, const OpShapes& shapes) const;
  /// Inputs of at least this part of the largest are shares: smaller ones are broadcast. What is made of parameters
  /// alone, as a bias of scores, counts only where it is a share: of what is whole a rank reads its own.
  bool all_shares(OpId op, double part) const;
  Layout made(OpId op, TensorId tensor, std::size_t number, std::size_t outputs) const;

  // --- signatures of products ---

  void divide_product(OpId op, OpShapes& shapes) const;
  /// A column has a share of y, a row of x.
  void divide_operands(bool column, OpShapes::Tensor* y, OpShapes::Tensor* x) const;
  /// Weights are [inner, outer] in Linear and MatMul, of each expert where there are several; [outer, inner] elsewhere.
  void divide_weights(bool column, std::int64_t outer, std::string_view type, OpShapes::Tensor& w) const;

  const Graph& graph_;
  const std::int64_t ranks_;
  const bool sequence_;
  const ParameterUse use_;
  IdMap<OpId, Way> way_;
  IdMap<TensorId, Layout> layout_;
  IdMap<OpId, std::optional<OpShapes>> shapes_;
  IdMap<OpId, OpId> base_;   // of a backward op: the forward op
  IdMap<OpId, bool> fixed_;  // a forward op that reads no input of the network
};

}  // namespace trainyard::detail
