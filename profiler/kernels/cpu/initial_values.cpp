#include "profiler/kernels/initial_values.hpp"

#include <algorithm>
#include <utility>

#include "profiler/kernels/cpu/program.hpp"
#include "trainyard/core/random.hpp"

namespace trainyard::cpu {

void Program::fill(ValueId id, std::vector<float>& to) const {
  using Rule = InitialValues::Rule;
  if (const auto copy = copies_.find(id); copy != copies_.end()) return fill_part(*copy->second, to);
  const Value& value = model_.values[id];
  const InitialValues& first = first_values_[id];
  to.assign(static_cast<std::size_t>(elements(value.shape)), static_cast<float>(first.number));
  const auto copy = [&](const auto& numbers) {
    std::ranges::transform(numbers, to.begin(), [](auto x) { return static_cast<float>(x); });
  };
  if (first.rule == Rule::integers) return copy(value.integers);
  if (first.rule == Rule::reals) return copy(value.reals);
  Random random = Random::stream(seed_, id.index());
  if (first.rule == Rule::uniform)
    for (float& x : to) x = static_cast<float>(first.number * (2 * random.uniform() - 1));
  if (first.rule == Rule::normal)
    for (float& x : to) x = static_cast<float>(random.normal());
  if (first.rule == Rule::below)
    for (float& x : to) x = static_cast<float>(random.below(static_cast<std::uint64_t>(first.below)));
}

/// The part of the whole array's initial numbers.
void Program::fill_part(const HeldCopy& copy, std::vector<float>& to) const {
  std::vector<float> whole;
  fill(copy.of, whole);
  to = numbers_of_parts(std::move(whole), model_.values[copy.of].shape, copy.parts);
}

void Program::reset() {
  for (const ValueId id : model_.values.ids()) {
    const Value& value = model_.values[id];
    if (!value.shape_known || !is_used_[id]) continue;
    if (value.role == Value::Role::input) {
      fill(id, inputs_[id]);
    } else if (value.role != Value::Role::activation) {
      if (value.role != Value::Role::constant || held_[id].empty()) fill(id, held_[id]);
      if (value.role != Value::Role::parameter) continue;
      const std::size_t count = held_[id].size();
      if (recipe_.optimizer == Optimizer::momentum || recipe_.optimizer == Optimizer::adam)
        momentum_[id].assign(count, 0.0F);
      if (recipe_.optimizer == Optimizer::adam) variance_[id].assign(count, 0.0F);
      updated_[id] = in_pieces_.contains(id) ? held_[id] : std::vector<float>{};
      steps_[id] = 0;
    }
  }
}

}  // namespace trainyard::cpu
