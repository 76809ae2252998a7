#pragma once

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/placeto_layers.hpp"

namespace trainyard::learned {

/// Gradients of an episode of Placeto: a backward pass over the rows of its record.
template <class Scalar>
class PlacetoBackward {
 public:
  using M = learn::Matrix<Scalar>;

  PlacetoBackward(const PlacetoSizes& sizes, const PlacetoLayers& layers, const learn::Parameters<Scalar>& parameters,
                  const PlacetoRecord<Scalar>& record, learn::Gradients<Scalar>& gradients)
      : sizes_(sizes), layers_(layers), parameters_(parameters), record_(record), gradients_(gradients) {}

  /// Adds to the gradients. `logits` is the derivative with respect to the logits: steps x devices.
  void run(M logits) {
    for (std::size_t step = 0; step < record_.from.size(); ++step)
      gradients_[layers_.stay].row(record_.from[step]) += logits.row(learn::index(step));
    through_devices(logits);
    M hidden = zero(record_.hidden);
    back_through_dense(parameters_, layers_.output, record_.hidden.rows(), logits, gradients_, &hidden);
    back_through_relu(record_.hidden, hidden);
    M known = zero(record_.known);
    back_through_dense(parameters_, layers_.hidden, record_.known.rows(), hidden, gradients_, &known);
    M embeddings = zero(record_.embeddings);
    const std::size_t own = sizes_.embedding == Embedding::aggregator ? 0 : 2 * sizes_.width;
    if (own > 0)
      for (std::size_t step = 0; step < record_.own.size(); ++step)
        add_scaled(row(known, step), own, Scalar{1}, row(embeddings, record_.own[step]));
    for (std::size_t p = 0; p < record_.pools.size(); ++p) through_pool(p, own + p * sizes_.pool, known, embeddings);
    M x = zero(record_.x);
    for (const std::size_t up : {0U, 1U}) through_rounds(up, embeddings, x);
    back_through_relu(record_.x, x);
    back_through_dense<Scalar>(parameters_, layers_.input, record_.features.rows(), x, gradients_, nullptr);
  }

 private:
  static M zero(const GrowingRows<Scalar>& like) {
    return M::Zero(learn::index(like.size()), learn::index(like.width()));
  }
  static Scalar* row(M& matrix, std::size_t i) { return matrix.data() + learn::index(i) * matrix.cols(); }

  void through_devices(const M& logits) {
    if (sizes_.look_ahead)
      for (learn::Index i = 0; i < logits.size(); ++i)
        add_scaled(record_.device.row(static_cast<std::size_t>(i)) + kDeviceFeatures, kLookFeatures, logits.data()[i],
                   gradients_[layers_.gain].data());
    M scores = Eigen::Map<const M>(logits.data(), logits.size(), 1);
    M hidden = zero(record_.device_hidden);
    back_through_dense(parameters_, layers_.device_output, record_.device_hidden.rows(), scores, gradients_, &hidden);
    back_through_relu(record_.device_hidden, hidden);
    back_through_dense<Scalar>(parameters_, layers_.device, record_.device.rows(), hidden, gradients_, nullptr);
  }

  void through_pool(std::size_t p, std::size_t column, M& known, M& embeddings) {
    const auto& pool = record_.pools[p];
    M whole = known.middleCols(learn::index(column), learn::index(sizes_.pool));
    for (std::size_t step = 0; step < record_.known.size(); ++step)
      for (std::size_t i = 0; i < sizes_.pool; ++i)
        if (record_.known.row(step)[column + i] <= 0) row(whole, step)[i] = 0;
    M sums = zero(pool.sums);
    back_through_dense(parameters_, layers_.pools[p].whole, pool.sums.rows(), whole, gradients_, &sums);
    M members = zero(pool.members);
    for (std::size_t step = 0; step < pool.sets.rows(); ++step) {
      const Scalar scale = learn::sum_scale<Scalar>(pool.sets[step].size());
      for (const std::uint32_t member : pool.sets[step])
        add_scaled(row(sums, step), sizes_.pool, scale, row(members, member));
    }
    back_through_relu(pool.members, members);
    back_through_dense(parameters_, layers_.pools[p].member, record_.embeddings.rows(), members, gradients_,
                       &embeddings);
  }

  void through_rounds(std::size_t up, M& embeddings, M& x) {
    const auto& direction = record_.directions[up];
    const std::size_t width = sizes_.width;
    M self = zero(direction.self), values = zero(direction.last());
    for (std::size_t i = 0; i < direction.ends.size(); ++i)
      add_scaled(row(embeddings, i) + up * width, width, Scalar{1}, row(values, direction.ends[i]));
    for (std::size_t number = direction.rounds.size(); number-- > 0;) {
      const auto& round = direction.rounds[number];
      for (std::size_t i = 0; i < round.self.size(); ++i)
        add_scaled(row(values, i), width, Scalar{1}, row(self, round.self[i]));
      back_through_relu(round.gains, values);  // a row without senders gains 0
      M sums = zero(round.sums);
      back_through_dense(parameters_, layers_.messages[up].aggregate, round.sums.rows(), values, gradients_, &sums);
      M messages = zero(round.messages);
      for (std::size_t i = 0; i < round.senders.rows(); ++i) {
        const Scalar scale = learn::sum_scale<Scalar>(round.senders[i].size());
        for (const std::uint32_t sender : round.senders[i])
          add_scaled(row(sums, i), width, scale, row(messages, sender));
      }
      back_through_relu(round.messages, messages);
      values = zero(direction.before(number));
      back_through_dense(parameters_, layers_.messages[up].message, direction.before(number).rows(), messages,
                         gradients_, &values);
    }
    self += values;
    back_through_relu(direction.self, self);
    back_through_dense(parameters_, layers_.self[up], record_.x.rows(), self, gradients_, &x);
  }

  const PlacetoSizes& sizes_;
  const PlacetoLayers& layers_;
  const learn::Parameters<Scalar>& parameters_;
  const PlacetoRecord<Scalar>& record_;
  learn::Gradients<Scalar>& gradients_;
};

}  // namespace trainyard::learned
