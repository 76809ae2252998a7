#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainyard/learn/tape.hpp"

namespace trainyard::learn {

/// Fully connected layer: x W + b.
struct Dense {
  std::size_t weight = 0, bias = 0;

  template <class Scalar>
  static Dense make(Parameters<Scalar>& parameters, const std::string& name, std::size_t in, std::size_t out,
                    Random& random) {
    Dense layer;
    layer.weight = parameters.add(name + ".weight", in, out, random);
    layer.bias = parameters.add_zero(name + ".bias", 1, out);
    return layer;
  }
  template <class Scalar>
  Variable operator()(Tape<Scalar>& tape, Variable x) const {
    return tape.add_row(tape.matmul(x, tape.parameter(weight)), tape.parameter(bias));
  }
  /// Forward pass without a tape.
  template <class Scalar, class Rows>
  Matrix<Scalar> apply(const Parameters<Scalar>& parameters, const Rows& x) const {
    Matrix<Scalar> y = x * parameters[weight];
    y.rowwise() += parameters[bias].row(0);
    return y;
  }
};

/// LSTM cell (Hochreiter and Schmidhuber, 1997) with a forget gate:
///
///     i, f, g, o = [x, h] W + b       c <- sigma(f) c + sigma(i) tanh(g)       h <- sigma(o) tanh(c)
struct LstmCell {
  struct State {
    Variable hidden, cell;
  };
  Dense gates;
  std::size_t width = 0;

  template <class Scalar>
  static LstmCell make(Parameters<Scalar>& parameters, const std::string& name, std::size_t in, std::size_t width,
                       Random& random) {
    LstmCell cell;
    cell.gates = Dense::make(parameters, name, in + width, 4 * width, random);
    // A forget bias of 1 makes the cell remember initially (Gers et al., 2000).
    parameters[cell.gates.bias].middleCols(index(width), index(width)).setOnes();
    cell.width = width;
    return cell;
  }
  template <class Scalar>
  State start(Tape<Scalar>& tape, std::size_t rows = 1) const {
    const Matrix<Scalar> zero = Matrix<Scalar>::Zero(index(rows), index(width));
    return {tape.constant(zero), tape.constant(zero)};
  }
  template <class Scalar>
  State operator()(Tape<Scalar>& tape, Variable x, State state) const {
    const Variable all = gates(tape, tape.concat({x, state.hidden}));
    const auto gate = [&](std::size_t which) { return tape.columns(all, which * width, width); };
    const Variable in = tape.sigmoid(gate(0)), forget = tape.sigmoid(gate(1)), out = tape.sigmoid(gate(3));
    const Variable cell = tape.add(tape.multiply(forget, state.cell), tape.multiply(in, tape.tanh(gate(2))));
    return {tape.multiply(out, tape.tanh(cell)), cell};
  }
};

/// Content-based attention (Bahdanau et al., 2015) of a query q over remembered rows m:
///
///     weights = softmax_i(v . tanh(m_i A + q B))       context = sum_i weights_i m_i
struct Attention {
  std::size_t memory = 0, query = 0, score = 0;

  template <class Scalar>
  static Attention make(Parameters<Scalar>& parameters, const std::string& name, std::size_t memory_width,
                        std::size_t query_width, std::size_t width, Random& random) {
    Attention attention;
    attention.memory = parameters.add(name + ".memory", memory_width, width, random);
    attention.query = parameters.add(name + ".query", query_width, width, random);
    attention.score = parameters.add(name + ".score", 1, width, random);
    return attention;
  }
  /// m A, computed once for all queries.
  template <class Scalar>
  Variable keys(Tape<Scalar>& tape, Variable remembered) const {
    return tape.matmul(remembered, tape.parameter(memory));
  }
  template <class Scalar>
  Variable operator()(Tape<Scalar>& tape, Variable remembered, Variable keys, Variable q) const {
    const Variable mixed = tape.tanh(tape.add_row(keys, tape.matmul(q, tape.parameter(query))));
    return tape.matmul(tape.softmax(tape.matmul_transposed(tape.parameter(score), mixed)), remembered);
  }
};

/// One round of message passing on a graph (Placeto, A.1, with the self term of its program):
///
///     x'_v = s_v + relu(G (sum of relu(F x_u) over the neighbours u of v) / sqrt(their number))
///
/// and x'_v = s_v if v has no neighbours.
struct MessagePassing {
  Dense message, aggregate;

  template <class Scalar>
  static MessagePassing make(Parameters<Scalar>& parameters, const std::string& name, std::size_t width,
                             Random& random) {
    return {Dense::make(parameters, name + ".message", width, width, random),
            Dense::make(parameters, name + ".aggregate", width, width, random)};
  }
  /// Row i of `self` and of the result receives messages from the rows lists[i] of x.
  template <class Scalar>
  Variable operator()(Tape<Scalar>& tape, Variable self, Variable x, const RowLists& lists) const {
    std::vector<Scalar> some;
    for (std::size_t i = 0; i < lists.rows(); ++i) some.push_back(lists[i].empty() ? Scalar{0} : Scalar{1});
    const Variable sums = tape.sum_rows(tape.relu(message(tape, x)), lists);
    return tape.add(self, tape.keep_rows(tape.relu(aggregate(tape, sums)), std::move(some)));
  }
};

/// A round of message passing along edges with features (Gilmer et al., 2017, with a sum of ReLUs in place of the edge
/// network's matrices):
///
///     x'_v = s_v + relu(G (sum of relu(F x_u + E a_uv) over the messages u -> v) / sqrt(their number))
struct EdgeMessages {
  Dense message, aggregate;
  std::size_t edge = 0;

  template <class Scalar>
  static EdgeMessages make(Parameters<Scalar>& parameters, const std::string& name, std::size_t features,
                           std::size_t width, Random& random) {
    EdgeMessages layer;
    layer.message = Dense::make(parameters, name + ".message", width, width, random);
    layer.aggregate = Dense::make(parameters, name + ".aggregate", width, width, random);
    layer.edge = parameters.add(name + ".edge", features, width, random);
    return layer;
  }
  /// E a, computed once for all rounds.
  template <class Scalar>
  Variable edges(Tape<Scalar>& tape, Variable features) const {
    return tape.matmul(features, tape.parameter(edge));
  }
  /// Message i is sent from row senders[i] of x; row v of `self` and of the result receives the messages inbox[v].
  template <class Scalar>
  Variable operator()(Tape<Scalar>& tape, Variable self, Variable x, Variable edges,
                      const std::vector<std::uint32_t>& senders, const RowLists& inbox) const {
    const Variable sent = tape.relu(tape.add(tape.take_rows(message(tape, x), senders), edges));
    return tape.add(self, tape.relu(aggregate(tape, tape.sum_rows(sent, inbox))));
  }
};

/// Score of each row, from features f that change between decisions and a fixed part `known` that may be computed once:
///
///     w . leaky(leaky(f A) B + known)
struct ScoreHead {
  Dense features, output;
  std::size_t latent = 0;

  template <class Scalar>
  static ScoreHead make(Parameters<Scalar>& parameters, const std::string& name, std::size_t in, std::size_t width,
                        Random& random) {
    ScoreHead head;
    head.features = Dense::make(parameters, name + ".features", in, width, random);
    head.latent = parameters.add(name + ".latent", width, width, random);
    head.output = Dense::make(parameters, name + ".output", width, 1, random);
    parameters[head.output.weight] *= Scalar{0.3F};  // nearly uniform initially
    return head;
  }
  template <class Scalar>
  Variable operator()(Tape<Scalar>& tape, Variable f, Variable known) const {
    const Variable own = tape.matmul(tape.leaky_relu(features(tape, f)), tape.parameter(latent));
    return output(tape, tape.leaky_relu(tape.add(own, known)));
  }
  /// Forward pass without a tape.
  template <class Scalar>
  Matrix<Scalar> apply(const Parameters<Scalar>& parameters, const Matrix<Scalar>& f,
                       const Matrix<Scalar>& known) const {
    const Matrix<Scalar> own = leaky_relu(features.apply(parameters, f));
    const Matrix<Scalar> sum = own * parameters[latent] + known;
    return output.apply(parameters, leaky_relu(sum));
  }
};

/// Embedding of a set of nodes: relu(H (sum of relu(L x_u) over its members u) / sqrt(their number)).
struct SetPooling {
  Dense member, whole;

  template <class Scalar>
  static SetPooling make(Parameters<Scalar>& parameters, const std::string& name, std::size_t in, std::size_t out,
                         Random& random) {
    return {Dense::make(parameters, name + ".member", in, out, random),
            Dense::make(parameters, name + ".whole", out, out, random)};
  }
  template <class Scalar>
  Variable operator()(Tape<Scalar>& tape, Variable x, const RowLists& sets) const {
    return tape.relu(whole(tape, tape.sum_rows(tape.relu(member(tape, x)), sets)));
  }
};

}  // namespace trainyard::learn
