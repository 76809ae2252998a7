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

/// An op's signature, "Type(float32[2,3])->float32[2]", with extents that can be changed.
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
    /// The dimension of the sequence, in arrays of two or three dimensions: the last but one.
    std::size_t row() const { return extents.size() - 2; }
    bool has_rows() const { return extents.size() == 2 || extents.size() == 3; }
  };
  std::string head;
  std::vector<Tensor> reads, writes;

  static std::optional<OpShapes> parse(std::string_view text);
  std::string text() const;
};

/// How t tensor ranks divide each op and each tensor (TensorParallelGraph).
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

  /// The layout in which the op takes an input.
  Layout taken(OpId op, TensorId tensor) const;
  /// Whether the op is a sum whose result is partial. It adds partial terms only or, after the forward pass, partial
  /// and whole gradients or sums of their squares; none of its inputs is a share or rows.
  bool sums_partial(OpId op) const;
  /// The op's signature on a rank.
  std::string signature(OpId op) const;
  /// Fraction of the op's parameters and state that a rank holds.
  double held(OpId op) const;

 private:
  bool divides(std::int64_t extent) const;
  void divide(OpShapes::Tensor& tensor, std::size_t dimension) const;
  void divide_rows(OpShapes::Tensor& tensor) const;
  bool is_update(OpId op) const { return graph_.phase(op) == Phase::update; }

  /// Divides a tensor with fewer heads than ranks, if possible: leaves one head. Keys and values keep all rows of the
  /// head; other tensors keep a part of its rows, which are those of the queries that share the head.
  bool divides_group(OpId op, OpShapes::Tensor& tensor, bool of_queries) const;

  // --- ways ---

  void decide(OpId op);
  /// Whether the op updates shares: its gradients are shares. For a sum over tied copies (tie_copies), the gradients
  /// made here are.
  bool updates_share(OpId op) const;
  Way forward_way(OpId op, const OpShapes& shapes) const;
  /// Whether the op is a product in which ranks have shares of the queries (or of the weights of values) but keys and
  /// values have fewer heads than there are ranks. Keys and values are then gathered, and several ranks read each head.
  bool shares_queries(OpId op, const OpShapes& shapes) const;
  /// Number of heads of the softmax before a product of its weights with values, or after one of queries with keys; 0:
  /// none.
  std::int64_t heads_of(OpId op) const;
  /// The forward op if the op is one of shares_queries() or its gradient; otherwise none.
  OpId grouped(OpId op) const;
  /// False for keys and values of a grouped op, and for their gradients. `number` is the position among the reads or
  /// writes of the signature; it decides, as keys may have the extents of queries.
  bool is_of_queries(OpId op, const OpShapes::Tensor& tensor, bool made, std::size_t number) const;
  /// Whether the tensor holds keys or values of heads that several ranks read.
  bool is_read_by_several(OpId op, TensorId tensor) const;
  /// Whether the op multiplies [experts, rows, inner] by weights [experts, inner, outer].
  bool is_product_of_experts(OpId op, const OpShapes& shapes) const;
  /// Whether the op belongs to the router of a mixture of experts. It is not divided, as the largest of a token's few
  /// scores are selected.
  bool routes(OpId op) const;
  /// Whether the largest inputs are rows, or become rows at no cost: a rank takes its own rows of partial terms and of
  /// a whole tensor. False for sums of only partial terms, which are left to a later op.
  bool all_rows(OpId op, const OpShapes& shapes) const;
  /// Whether all inputs of at least `part` of the largest are shares; smaller inputs are broadcast. An input made of
  /// parameters alone, such as a bias of scores, counts only if it is a share: a rank reads its own share of a whole
  /// one.
  bool all_shares(OpId op, double part) const;
  Layout made(OpId op, TensorId tensor, std::size_t number, std::size_t outputs) const;

  // --- signatures of products ---

  void divide_product(OpId op, OpShapes& shapes) const;
  /// Divides y for a column, x for a row.
  void divide_operands(bool column, OpShapes::Tensor* y, OpShapes::Tensor* x) const;
  /// Divides the weights: [inner, outer] in Linear and MatMul, after the experts if there are several; [outer, inner]
  /// elsewhere.
  void divide_weights(bool column, std::int64_t outer, std::string_view type, OpShapes::Tensor& w) const;

  const Graph& graph_;
  const std::int64_t ranks_;
  const bool sequence_;
  const ParameterUse use_;
  IdMap<OpId, Way> way_;
  IdMap<TensorId, Layout> layout_;
  IdMap<OpId, std::optional<OpShapes>> shapes_;
  IdMap<OpId, OpId> base_;   // of a backward op: the forward op
  IdMap<OpId, bool> fixed_;  // a forward op that depends on no input of the network
};

}  // namespace trainyard::detail
