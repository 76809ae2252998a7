#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "trainyard/learn/parameters.hpp"

namespace trainyard::learn {

/// Handle of a value on a tape.
struct Variable {
  std::uint32_t at = 0;
};

/// Reverse-mode automatic differentiation: each operation computes its value at once and records how a gradient is
/// propagated back through it. Use one tape per computation; the parameters must not change during its lifetime.
///
///     Tape<float> tape{parameters};
///     const Variable y = tape.relu(tape.matmul(tape.constant(x), tape.parameter(0)));
///     tape.backward(y, dy, gradients);                     // adds dL/dw of each parameter to `gradients`
template <class Scalar>
class Tape {
 public:
  using M = Matrix<Scalar>;

  explicit Tape(const Parameters<Scalar>& parameters) : parameters_(parameters), used_(parameters.size(), kNone) {
    fix_block_sizes();
  }

  const M& value(Variable x) const { return nodes_[x.at].value; }

  Variable constant(M value) { return add_node(std::move(value), {}); }
  Variable parameter(std::size_t i) {
    if (used_[i] == kNone) used_[i] = add_node(parameters_[i], {}).at;
    return {used_[i]};
  }

  Variable matmul(Variable a, Variable b) {
    return add_node(value(a) * value(b), [this, a, b](const M& g) {
      gradient(a).noalias() += g * value(b).transpose();
      gradient(b).noalias() += value(a).transpose() * g;
    });
  }
  /// a b^T
  Variable matmul_transposed(Variable a, Variable b) {
    return add_node(value(a) * value(b).transpose(), [this, a, b](const M& g) {
      gradient(a).noalias() += g * value(b);
      gradient(b).noalias() += g.transpose() * value(a);
    });
  }
  Variable add(Variable a, Variable b) {
    return add_node(value(a) + value(b), [this, a, b](const M& g) {
      gradient(a) += g;
      gradient(b) += g;
    });
  }
  /// Adds `row` to each row of a.
  Variable add_row(Variable a, Variable row) {
    return add_node(value(a).rowwise() + value(row).row(0), [this, a, row](const M& g) {
      gradient(a) += g;
      gradient(row) += g.colwise().sum();
    });
  }
  Variable multiply(Variable a, Variable b) {
    return add_node(value(a).cwiseProduct(value(b)), [this, a, b](const M& g) {
      gradient(a) += g.cwiseProduct(value(b));
      gradient(b) += g.cwiseProduct(value(a));
    });
  }
  Variable relu(Variable a) {
    return add_node(value(a).cwiseMax(Scalar{0}), [this, a](const M& g) {
      gradient(a).array() += (value(a).array() > Scalar{0}).select(g.array(), Scalar{0});
    });
  }
  /// x if it is positive, else x / 10.
  Variable leaky_relu(Variable a) {
    return add_node(learn::leaky_relu(value(a)), [this, a](const M& g) {
      gradient(a).array() += (value(a).array() > Scalar{0}).select(g.array(), g.array() * kLeak<Scalar>);
    });
  }
  Variable tanh(Variable a) {
    M y = value(a);
    Scalar* const first = y.data();
    for (Index i = 0; i < y.size(); ++i) first[i] = hyperbolic_tangent(first[i]);
    const Variable made = next();
    return add_node(std::move(y), [this, a, made](const M& g) {
      gradient(a).array() += g.array() * (1 - value(made).array().square());
    });
  }
  Variable sigmoid(Variable a) {
    M y = value(a).unaryExpr([](Scalar x) { return learn::sigmoid(x); });
    const Variable made = next();
    return add_node(std::move(y), [this, a, made](const M& g) {
      gradient(a).array() += g.array() * value(made).array() * (1 - value(made).array());
    });
  }
  /// Softmax of each row.
  Variable softmax(Variable a) {
    M y = value(a);
    for (Index r = 0; r < y.rows(); ++r) {
      const Scalar top = y.row(r).maxCoeff();
      for (Index c = 0; c < y.cols(); ++c)
        y(r, c) = static_cast<Scalar>(portable_exp(std::max(-700.0, static_cast<double>(y(r, c) - top))));
      y.row(r) /= y.row(r).sum();
    }
    const Variable made = next();
    return add_node(std::move(y), [this, a, made](const M& g) {
      const M& s = value(made);
      for (Index r = 0; r < s.rows(); ++r)
        gradient(a).row(r) += s.row(r).cwiseProduct(g.row(r) - M::Constant(1, s.cols(), s.row(r).dot(g.row(r))));
    });
  }

  /// Concatenates the columns of the parts.
  Variable concat(const std::vector<Variable>& parts) {
    Index columns = 0;
    for (const Variable part : parts) columns += value(part).cols();
    M y(value(parts.front()).rows(), columns);
    Index at = 0;
    for (const Variable part : parts) {
      y.middleCols(at, value(part).cols()) = value(part);
      at += value(part).cols();
    }
    return add_node(std::move(y), [this, parts](const M& g) {
      Index from = 0;
      for (const Variable part : parts) {
        gradient(part) += g.middleCols(from, value(part).cols());
        from += value(part).cols();
      }
    });
  }
  /// Concatenates the rows of the parts.
  Variable stack(const std::vector<Variable>& parts) {
    Index rows = 0;
    for (const Variable part : parts) rows += value(part).rows();
    M y(rows, value(parts.front()).cols());
    Index at = 0;
    for (const Variable part : parts) {
      y.middleRows(at, value(part).rows()) = value(part);
      at += value(part).rows();
    }
    return add_node(std::move(y), [this, parts](const M& g) {
      Index from = 0;
      for (const Variable part : parts) {
        gradient(part) += g.middleRows(from, value(part).rows());
        from += value(part).rows();
      }
    });
  }
  Variable columns(Variable a, std::size_t first, std::size_t count) {
    return add_node(value(a).middleCols(index(first), index(count)),
                    [this, a, first, count](const M& g) { gradient(a).middleCols(index(first), index(count)) += g; });
  }
  /// Row i of the result is row items[i] of a.
  Variable take_rows(Variable a, std::vector<std::uint32_t> items) {
    M y(index(items.size()), value(a).cols());
    for (std::size_t i = 0; i < items.size(); ++i) y.row(index(i)) = value(a).row(items[i]);
    return add_node(std::move(y), [this, a, items = std::move(items)](const M& g) {
      M& to = gradient(a);
      for (std::size_t i = 0; i < items.size(); ++i) to.row(items[i]) += g.row(index(i));
    });
  }
  /// Row i of the result is the sum of the rows lists[i] of a, divided by the square root of their number. The lists
  /// must outlive the tape.
  Variable sum_rows(Variable a, const RowLists& lists) {
    M y = M::Zero(index(lists.rows()), value(a).cols());
    for (std::size_t i = 0; i < lists.rows(); ++i) {
      for (const std::uint32_t item : lists[i]) y.row(index(i)) += value(a).row(item);
      y.row(index(i)) *= sum_scale<Scalar>(lists[i].size());
    }
    return add_node(std::move(y), [this, a, &lists](const M& g) {
      M& to = gradient(a);
      for (std::size_t i = 0; i < lists.rows(); ++i) {
        const Scalar scale = sum_scale<Scalar>(lists[i].size());
        for (const std::uint32_t item : lists[i]) to.row(item) += scale * g.row(index(i));
      }
    });
  }
  /// Multiplies each row by its entry of `keep`, 0 or 1.
  Variable keep_rows(Variable a, std::vector<Scalar> keep) {
    M y = value(a);
    for (std::size_t i = 0; i < keep.size(); ++i) y.row(index(i)) *= keep[i];
    return add_node(std::move(y), [this, a, keep = std::move(keep)](const M& g) {
      for (std::size_t i = 0; i < keep.size(); ++i) gradient(a).row(index(i)) += keep[i] * g.row(index(i));
    });
  }

  /// Adds dL/dw of each parameter w to `gradients`, with `seed` = dL/dy. Call once per tape.
  void backward(Variable y, const M& seed, Gradients<Scalar>& gradients) {
    gradient(y) += seed;
    for (std::size_t i = nodes_.size(); i-- > 0;)
      if (nodes_[i].back && nodes_[i].gradient.size() > 0) nodes_[i].back(nodes_[i].gradient);
    for (std::size_t p = 0; p < used_.size(); ++p)
      if (used_[p] != kNone && nodes_[used_[p]].gradient.size() > 0) gradients[p] += nodes_[used_[p]].gradient;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Node {
    M value, gradient;
    std::function<void(const M&)> back;
  };

  Variable next() const { return {static_cast<std::uint32_t>(nodes_.size())}; }
  Variable add_node(M value, std::function<void(const M&)> back) {
    nodes_.push_back({std::move(value), {}, std::move(back)});
    return {static_cast<std::uint32_t>(nodes_.size() - 1)};
  }
  M& gradient(Variable x) {
    Node& node = nodes_[x.at];
    if (node.gradient.size() == 0) node.gradient.setZero(node.value.rows(), node.value.cols());
    return node.gradient;
  }

  const Parameters<Scalar>& parameters_;
  std::vector<std::uint32_t> used_;  // index of the node of each parameter
  std::vector<Node> nodes_;
};

extern template class Tape<float>;

}  // namespace trainyard::learn
