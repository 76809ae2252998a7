#include "trainyard/place/learned/placeto_network.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "trainyard/learn/policy_gradient.hpp"

namespace trainyard::learned {

using learn::index;
using learn::Index;
using learn::Matrix;
using learn::RowLists;
using learn::Variable;

namespace {

/// A matrix that grows by rows.
template <class Scalar>
class GrowingRows {
 public:
  explicit GrowingRows(std::size_t columns = 0) : rows_(16, index(columns)) {}
  auto append(std::size_t count) {
    if (index(used_ + count) > rows_.rows())
      rows_.conservativeResize(std::max(index(used_ + count), 2 * rows_.rows()), Eigen::NoChange);
    used_ += count;
    return rows_.middleRows(index(used_ - count), index(count));
  }
  auto row(std::size_t i) const { return rows_.row(index(i)); }
  auto used() const { return rows_.topRows(index(used_)); }
  std::size_t size() const { return used_; }

 private:
  Matrix<Scalar> rows_;
  std::size_t used_ = 0;
};

}  // namespace

/// The rows of an episode: which were computed, from which.
template <class Scalar>
struct PlacetoNetwork<Scalar>::Record : Trial {
  struct Round {
    std::vector<std::uint32_t> self;  // row of x that each row of the round comes from
    RowLists senders;                 // rows of the round before
  };
  Matrix<Scalar> features;
  std::vector<Round> rounds[2];
  std::vector<std::uint32_t> ends[2];  // of each embedding its rows in the last rounds
  std::vector<std::uint32_t> own;      // of each step the current group's embedding
  std::vector<RowLists> sets;          // of each pool, of each step, embeddings
};

template <class Scalar>
PlacetoNetwork<Scalar>::PlacetoNetwork(const PlacetoSizes& sizes, std::uint64_t seed) : sizes_(sizes) {
  Random random = Random::stream(seed, 0x70);
  input_ = learn::Dense::make(this->parameters, "input", features(), sizes.width, random);
  for (const int up : {0, 1}) {
    const std::string name = up ? "up" : "down";
    self_[up] = learn::Dense::make(this->parameters, name + ".self", sizes.width, sizes.width, random);
    if (rounds() > 0) messages_[up] = learn::MessagePassing::make(this->parameters, name, sizes.width, random);
  }
  const bool one = sizes.embedding == Embedding::aggregator;
  for (const char* name : {"ancestors", "descendants", "parallel"}) {
    if (one && !pools_.empty()) break;
    pools_.push_back(
        learn::SetPooling::make(this->parameters, one ? "all" : name, 2 * sizes.width, sizes.pool, random));
  }
  const std::size_t known = (one ? 0 : 2 * sizes.width) + pools_.size() * sizes.pool;
  hidden_ = learn::Dense::make(this->parameters, "hidden", known, sizes.hidden, random);
  output_ = learn::Dense::make(this->parameters, "output", sizes.hidden, sizes.devices, random);
  this->parameters[output_.weight] *= Scalar{0.1F};  // nearly even at first
}

/// An episode, step by step.
template <class Scalar>
class PlacetoNetwork<Scalar>::Rollout {
 public:
  Rollout(const PlacetoNetwork& net, const PlacementTask& task, Record& record)
      : net_(net),
        task_(task),
        record_(record),
        parameters_(net.parameters),
        nodes_(task.size()),
        features_(net.features()),
        members_(net.pools_.size()),
        version_x_(nodes_),
        version_e_(nodes_),
        stale_(nodes_, 0) {
    for (const int up : {0, 1}) {
      selves_[up] = GrowingRows<Scalar>{net.sizes_.width};
      ends_[up] = GrowingRows<Scalar>{net.sizes_.width};
      version_[up].assign(net.rounds() + 1, std::vector<std::uint32_t>(nodes_));
      messages_[up].assign(net.rounds(), GrowingRows<Scalar>{net.sizes_.width});
      record.rounds[up].resize(net.rounds());
    }
    for (auto& rows : members_) rows = GrowingRows<Scalar>{net.sizes_.pool};
    record.sets.resize(net.pools_.size());
    values_ = Matrix<Scalar>::Zero(index(nodes_), index(net.features()));
    values_.leftCols(index(kStaticFeatures)) = task.features.template cast<Scalar>();
    for (std::size_t node = 0; node < nodes_; ++node)
      values_(index(node), index(kStaticFeatures + 2 + task.start[node])) = 1;
  }

  void set_current(std::uint32_t node, bool current) { values_(index(node), index(kStaticFeatures)) = current; }
  void place(std::uint32_t node, std::uint32_t from, std::uint32_t to) {
    values_(index(node), index(kStaticFeatures + 2 + from)) = 0;
    values_(index(node), index(kStaticFeatures + 2 + to)) = 1;
    values_(index(node), index(kStaticFeatures + 1)) = 1;
  }

  /// Computes anew what depends on the features of these nodes, ascending.
  void update(const std::vector<std::uint32_t>& changed) {
    auto rows = features_.append(changed.size());
    for (std::size_t i = 0; i < changed.size(); ++i) rows.row(index(i)) = values_.row(changed[i]);
    const Matrix<Scalar> x = net_.input_.template apply<Scalar>(parameters_, rows).cwiseMax(Scalar{0});
    const auto first = static_cast<std::uint32_t>(selves_[0].size());
    for (std::size_t i = 0; i < changed.size(); ++i) version_x_[changed[i]] = first + static_cast<std::uint32_t>(i);
    std::vector<std::uint32_t> last[2];
    for (const int up : {0, 1}) last[up] = pass(up, changed, x);
    std::vector<std::uint32_t> both;
    std::ranges::set_union(last[0], last[1], std::back_inserter(both));
    embed(both);
  }

  /// The distribution over the devices of the current node.
  std::vector<double> decide(std::uint32_t node) {
    const std::size_t pool = net_.sizes_.pool;
    const bool one = net_.sizes_.embedding == Embedding::aggregator;
    record_.own.push_back(version_e_[node]);
    Matrix<Scalar> known(1, parameters_[net_.hidden_.weight].rows());
    Index at = 0;
    if (!one) {
      for (const int up : {0, 1}) {
        known.middleCols(at, index(net_.sizes_.width)) = ends_[up].row(record_.ends[up][version_e_[node]]);
        at += index(net_.sizes_.width);
      }
    }
    const RowLists* const lists[] = {&task_.sets.ancestors, &task_.sets.descendants, &task_.sets.parallel};
    for (std::size_t p = 0; p < members_.size(); ++p) {
      Matrix<Scalar> sum = Matrix<Scalar>::Zero(1, index(pool));
      std::size_t count = 0;
      const auto add = [&](std::uint32_t member) {
        sum += members_[p].row(version_e_[member]);
        record_.sets[p].add_item(version_e_[member]);
        ++count;
      };
      if (one)
        for (std::uint32_t member = 0; member < nodes_; ++member) add(member);
      else
        for (const std::uint32_t member : (*lists[p])[node]) add(member);
      record_.sets[p].end_row();
      sum *= learn::sum_scale<Scalar>(count);
      known.middleCols(at, index(pool)) =
          net_.pools_[p].whole.template apply<Scalar>(parameters_, sum).cwiseMax(Scalar{0});
      at += index(pool);
    }
    const Matrix<Scalar> hidden = net_.hidden_.template apply<Scalar>(parameters_, known).cwiseMax(Scalar{0});
    const Matrix<Scalar> logits = net_.output_.template apply<Scalar>(parameters_, hidden);
    return learn::probabilities<Scalar>(logits.row(0), task_.allowed(node));
  }

  void finish() { record_.features = features_.used(); }

 private:
  /// The rounds of one direction; returns the nodes with a new row in the last one, ascending.
  std::vector<std::uint32_t> pass(int up, const std::vector<std::uint32_t>& changed, const Matrix<Scalar>& x) {
    const RowLists& senders = up ? task_.children : task_.parents;
    const RowLists& receivers = up ? task_.parents : task_.children;
    auto& version = version_[up];
    std::vector<std::uint32_t> dirty = changed;
    Matrix<Scalar> y = net_.self_[up].template apply<Scalar>(parameters_, x).cwiseMax(Scalar{0});
    selves_[up].append(changed.size()) = y;
    for (const std::uint32_t node : changed) version[0][node] = version_x_[node];
    for (std::size_t round = 0; round < net_.rounds(); ++round) {
      messages_[up][round].append(static_cast<std::size_t>(y.rows())) =
          net_.messages_[up].message.template apply<Scalar>(parameters_, y).cwiseMax(Scalar{0});
      for (const std::uint32_t node : dirty) {
        stale_[node] = 1;
        for (const std::uint32_t receiver : receivers[node]) stale_[receiver] = 1;
      }
      dirty.clear();
      for (std::uint32_t node = 0; node < nodes_; ++node)
        if (std::exchange(stale_[node], std::uint8_t{0})) dirty.push_back(node);
      auto& record = record_.rounds[up][round];
      Matrix<Scalar> sums = Matrix<Scalar>::Zero(index(dirty.size()), index(net_.sizes_.width));
      for (std::size_t i = 0; i < dirty.size(); ++i) {
        record.self.push_back(version_x_[dirty[i]]);
        for (const std::uint32_t sender : senders[dirty[i]]) {
          sums.row(index(i)) += messages_[up][round].row(version[round][sender]);
          record.senders.add_item(version[round][sender]);
        }
        record.senders.end_row();
        sums.row(index(i)) *= learn::sum_scale<Scalar>(senders[dirty[i]].size());
      }
      y = net_.messages_[up].aggregate.template apply<Scalar>(parameters_, sums).cwiseMax(Scalar{0});
      for (std::size_t i = 0; i < dirty.size(); ++i) {
        if (senders[dirty[i]].empty()) y.row(index(i)).setZero();
        y.row(index(i)) += selves_[up].row(version_x_[dirty[i]]);
      }
      const auto first = static_cast<std::uint32_t>(record.self.size() - dirty.size());
      for (std::size_t i = 0; i < dirty.size(); ++i)
        version[round + 1][dirty[i]] = first + static_cast<std::uint32_t>(i);
    }
    ends_[up].append(static_cast<std::size_t>(y.rows())) = y;
    return dirty;
  }

  void embed(const std::vector<std::uint32_t>& nodes) {
    Matrix<Scalar> e(index(nodes.size()), index(2 * net_.sizes_.width));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      version_e_[nodes[i]] = static_cast<std::uint32_t>(record_.ends[0].size());
      for (const int up : {0, 1}) {
        const std::uint32_t end = version_[up].back()[nodes[i]];
        record_.ends[up].push_back(end);
        e.row(index(i)).middleCols(index(up ? net_.sizes_.width : 0), index(net_.sizes_.width)) = ends_[up].row(end);
      }
    }
    for (std::size_t p = 0; p < members_.size(); ++p)
      members_[p].append(nodes.size()) =
          net_.pools_[p].member.template apply<Scalar>(parameters_, e).cwiseMax(Scalar{0});
  }

  const PlacetoNetwork& net_;
  const PlacementTask& task_;
  Record& record_;
  const learn::Parameters<Scalar>& parameters_;
  std::size_t nodes_;
  Matrix<Scalar> values_;  // features now
  GrowingRows<Scalar> features_, selves_[2], ends_[2];
  std::vector<GrowingRows<Scalar>> messages_[2], members_;
  std::vector<std::uint32_t> version_x_, version_e_;
  std::vector<std::vector<std::uint32_t>> version_[2];  // of each round, the row of each node
  std::vector<std::uint8_t> stale_;
};

template <class Scalar>
std::unique_ptr<Trial> PlacetoNetwork<Scalar>::run(const PlacementTask& task, Random* random,
                                                   std::span<const std::uint32_t> order) const {
  learn::fix_block_sizes();
  auto record = std::make_unique<Record>();
  record->devices = task.start;
  std::vector<std::uint32_t> all(task.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  record->order = order.empty() ? all : std::vector<std::uint32_t>(order.begin(), order.end());
  Rollout rollout{*this, task, *record};
  for (std::size_t step = 0; step < record->order.size(); ++step) {
    const std::uint32_t node = record->order[step];
    rollout.set_current(node, true);
    if (step == 0) {
      rollout.update(all);
    } else {
      const std::uint32_t before = record->order[step - 1];
      rollout.set_current(before, false);
      rollout.update({std::min(before, node), std::max(before, node)});
    }
    std::vector<double> p = rollout.decide(node);
    const auto action = static_cast<std::uint32_t>(random ? learn::draw(p, *random) : learn::most_probable(p));
    rollout.place(node, record->devices[node], action);
    record->devices[node] = action;
    record->actions.push_back(action);
    record->probabilities.push_back(std::move(p));
  }
  rollout.finish();
  return record;
}

template <class Scalar>
Variable PlacetoNetwork<Scalar>::logits(learn::Tape<Scalar>& tape, const Record& record) const {
  const Variable x = tape.relu(input_(tape, tape.constant(record.features)));
  std::vector<Variable> ends;
  for (const int up : {0, 1}) {
    const Variable self = tape.relu(self_[up](tape, x));
    Variable y = self;
    for (const auto& round : record.rounds[up])
      y = messages_[up](tape, tape.take_rows(self, round.self), y, round.senders);
    ends.push_back(tape.take_rows(y, record.ends[up]));
  }
  const Variable embeddings = tape.concat(ends);
  std::vector<Variable> known;
  if (sizes_.embedding != Embedding::aggregator) known.push_back(tape.take_rows(embeddings, record.own));
  for (std::size_t p = 0; p < pools_.size(); ++p) known.push_back(pools_[p](tape, embeddings, record.sets[p]));
  return output_(tape, tape.relu(hidden_(tape, tape.concat(known))));
}

template <class Scalar>
Matrix<Scalar> PlacetoNetwork<Scalar>::logits(const Trial& trial) const {
  learn::Tape<Scalar> tape{this->parameters};
  return tape.value(logits(tape, static_cast<const Record&>(trial)));
}

template <class Scalar>
void PlacetoNetwork<Scalar>::add_gradients(const Trial& trial, const PlacementTask&, std::span<const double> weights,
                                           double bonus, learn::Gradients<Scalar>& gradients) const {
  learn::Tape<Scalar> tape{this->parameters};
  const Variable y = logits(tape, static_cast<const Record&>(trial));
  Matrix<Scalar> seed(index(trial.actions.size()), index(sizes_.devices));
  for (std::size_t step = 0; step < trial.actions.size(); ++step)
    learn::choice_gradient(trial.probabilities[step], trial.actions[step], weights[step], bonus, seed.row(index(step)));
  tape.backward(y, seed, gradients);
}

template class PlacetoNetwork<float>;
template class PlacetoNetwork<double>;

}  // namespace trainyard::learned
