#include "profiler/validate/outputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "profiler/kernels/step_program.hpp"
#include "profiler/measure/measure.hpp"

namespace trainyard {
namespace {

bool same_loss(double a, double b, double share) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b));
}

double largest(const std::vector<float>& numbers) {
  double most = 0;
  for (const float x : numbers) most = std::max(most, std::abs(static_cast<double>(x)));
  return most;
}
double largest(const std::vector<std::vector<float>>& changes) {
  double most = 0;
  for (const std::vector<float>& each : changes) most = std::max(most, largest(each));
  return most;
}

/// Difference of two changes of a parameter, up to which they agree. `most`: the largest change of any parameter;
/// `size`: the parameter's largest element.
double allowed_difference(double share, const std::vector<float>& changes, double most, double size) {
  constexpr double kNothing = 1e-4;  // of `most`: smaller changes may be only rounding
  constexpr double kRoundings = 4 * std::numeric_limits<float>::epsilon();
  return share * largest(changes) + kNothing * most + kRoundings * size;
}

}  // namespace

OutputCheck::OutputCheck(Backend& backend, const Problem& problem, const Workload& workload)
    : backend_(backend), problem_(problem), workload_(workload), plain_(*workload.recipe) {
  plain_.optimizer = Optimizer::sgd;
}

OutputCheck::Outcome OutputCheck::run(Backend& backend, const Problem& problem, const Schedule& schedule,
                                      const TrainingRecipe& recipe, std::uint64_t seed, bool changes) {
  const auto run = backend.prepare(problem, {.recipe = &recipe, .seed = seed}, schedule);
  Outcome outcome;
  std::vector<ValueId> parameters;
  if (changes)
    for (const ValueId id : recipe.model.values.ids())
      if (recipe.model.values[id].role == Value::Role::parameter) parameters.push_back(id);
  for (const ValueId id : parameters) outcome.changes.push_back(run->parameter(id));
  outcome.loss = run->step().loss;
  outcome.checksum = run->parameter_checksum();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<float> after = run->parameter(parameters[i]);
    outcome.sizes.push_back(largest(after));
    for (std::size_t k = 0; k < after.size(); ++k) outcome.changes[i][k] = after[k] - outcome.changes[i][k];
  }
  return outcome;
}

OutputCheck::Outcome OutputCheck::run(const Schedule& schedule, const TrainingRecipe& recipe) const {
  return run(backend_, problem_, schedule, recipe, workload_.seed, &recipe == &plain_);
}

std::optional<DeviceId> OutputCheck::able(const std::string& device_class) const {
  for (const DeviceId device : problem_.devices())
    if (problem_.cluster().device(device).device_class == device_class &&
        std::all_of(problem_.ops().begin(), problem_.ops().end(),
                    [&](OpId op) { return problem_.can_run(op, device); }))
      return device;
  return std::nullopt;
}

const std::string& OutputCheck::quickest(const std::set<std::string>& classes) const {
  const auto time = [&](const std::string& device_class) {
    const auto device = able(device_class);
    if (!device) return std::numeric_limits<double>::infinity();
    double sum = 0;
    for (const OpId op : problem_.ops()) sum += static_cast<double>(problem_.duration(op, *device).count);
    return sum;
  };
  return *std::ranges::min_element(classes, {}, time);
}

const OutputCheck::Outcome& OutputCheck::alone(const std::string& device_class, bool plain) {
  const auto known = alone_.find({device_class, plain});
  if (known != alone_.end()) return known->second;
  const Schedule serial = serial_schedule(problem_, able(device_class).value_or(DeviceId{0}));
  return alone_[{device_class, plain}] = run(serial, plain ? plain_ : *workload_.recipe);
}

bool OutputCheck::agrees(const Schedule& schedule, const PreparedRun& run, double loss) {
  std::set<std::string> classes;
  for (const OpId op : problem_.ops()) classes.insert(problem_.cluster().device(schedule.placement[op]).device_class);
  if (classes.size() > 1) return agrees_but_for_rounding(schedule, quickest(classes));
  const std::string device_class = classes.empty() ? "" : *classes.begin();
  const Outcome& expected = alone(device_class, false);
  if (!same_loss(loss, expected.loss, 0) || run.parameter_checksum() != expected.checksum) return false;
  if (!workload_.whole_recipe || workload_.recipe->own_statistics) return true;
  const auto [at, added] = whole_.try_emplace(device_class, false);
  if (added) at->second = agrees_with_whole(device_class);
  return at->second;
}

bool OutputCheck::agrees_with_whole(const std::string& device_class) {
  constexpr double kLossShare = 1e-4, kChangeShare = 1e-3;
  TrainingRecipe plain = *workload_.whole_recipe;
  plain.optimizer = Optimizer::sgd;
  const Problem& problem = *workload_.whole_problem;
  const Outcome whole = run(backend_, problem, serial_schedule(problem, able(device_class).value_or(DeviceId{0})),
                            plain, workload_.seed, true);
  const Outcome& parts = alone(device_class, true);
  if (!same_loss(parts.loss, whole.loss, kLossShare)) return false;
  const double most = largest(whole.changes);
  std::map<ValueId, const HeldCopy*> copies;
  for (const HeldCopy& copy : plain_.copies) copies.emplace(copy.copy, &copy);
  std::map<ValueId, std::size_t> number;  // index among the whole parameters
  for (const ValueId id : plain.model.values.ids())
    if (plain.model.values[id].role == Value::Role::parameter) number.emplace(id, number.size());
  std::map<ValueId, std::vector<bool>> seen;  // their elements that some part covers
  std::size_t i = 0;
  for (const ValueId id : plain_.model.values.ids()) {
    if (plain_.model.values[id].role != Value::Role::parameter) continue;
    const std::vector<float>& changes = parts.changes[i++];
    if (changes.empty()) continue;
    const auto found = copies.find(id);
    const HeldCopy copy = found == copies.end() ? HeldCopy{.copy = id, .of = id} : *found->second;
    const Shape& shape = plain.model.values[copy.of].shape;
    const std::size_t of = number.at(copy.of);
    const std::vector<std::size_t> places = kernels::places_of_parts(shape, copy.parts);
    std::vector<bool>& there = seen[copy.of];
    there.resize(whole.changes[of].size());
    const auto [begin, end] = copy.valid.value_or(std::pair{std::size_t{0}, changes.size()});
    const double allowed = allowed_difference(kChangeShare, whole.changes[of], most, whole.sizes[of]);
    for (std::size_t k = begin; k < end; ++k) {
      if (!(std::abs(static_cast<double>(changes[k]) - static_cast<double>(whole.changes[of][places[k]])) <= allowed))
        return false;
      there[places[k]] = true;
    }
  }
  for (const auto& [id, of] : number)
    if (largest(whole.changes[of]) > 0 && (!seen.contains(id) || std::ranges::find(seen[id], false) != seen[id].end()))
      return false;
  return true;
}

bool OutputCheck::agrees_but_for_rounding(const Schedule& schedule, const std::string& device_class) {
  constexpr double kLossShare = 0.01, kChangeShare = 0.05;
  const Outcome& expected = alone(device_class, true);
  const Outcome outcome = run(schedule, plain_);
  if (!same_loss(outcome.loss, expected.loss, kLossShare)) return false;
  const double most = largest(expected.changes);
  for (std::size_t i = 0; i < expected.changes.size(); ++i) {
    const std::vector<float>&a = outcome.changes[i], &b = expected.changes[i];
    const double allowed = allowed_difference(kChangeShare, b, most, expected.sizes[i]);
    for (std::size_t k = 0; k < b.size(); ++k)
      if (!(std::abs(static_cast<double>(a[k]) - static_cast<double>(b[k])) <= allowed)) return false;
  }
  return true;
}

}  // namespace trainyard
