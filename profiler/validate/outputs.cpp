#include "profiler/validate/outputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

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

}  // namespace

OutputCheck::OutputCheck(Backend& backend, const Problem& problem, const Workload& workload)
    : backend_(backend), problem_(problem), workload_(workload), plain_(*workload.recipe) {
  plain_.optimizer = Optimizer::sgd;
}

OutputCheck::Outcome OutputCheck::run(const Schedule& schedule, const TrainingRecipe& recipe) const {
  const auto run = backend_.prepare(problem_, {.recipe = &recipe, .seed = workload_.seed}, schedule);
  Outcome outcome;
  std::vector<ValueId> parameters;
  if (&recipe == &plain_)
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
  const Outcome& expected = alone(classes.empty() ? "" : *classes.begin(), false);
  return same_loss(loss, expected.loss, 0) && run.parameter_checksum() == expected.checksum;
}

bool OutputCheck::agrees_but_for_rounding(const Schedule& schedule, const std::string& device_class) {
  constexpr double kLossShare = 0.01, kChangeShare = 0.05;
  constexpr double kNothing = 1e-4;  // of the largest change of any parameter: smaller ones may be all rounding
  constexpr double kRoundings = 4 * std::numeric_limits<float>::epsilon();
  const Outcome& expected = alone(device_class, true);
  const Outcome outcome = run(schedule, plain_);
  if (!same_loss(outcome.loss, expected.loss, kLossShare)) return false;
  double most = 0;
  for (const std::vector<float>& changes : expected.changes) most = std::max(most, largest(changes));
  for (std::size_t i = 0; i < expected.changes.size(); ++i) {
    const std::vector<float>&a = outcome.changes[i], &b = expected.changes[i];
    const double allowed = kChangeShare * largest(b) + kNothing * most + kRoundings * expected.sizes[i];
    for (std::size_t k = 0; k < b.size(); ++k)
      if (!(std::abs(static_cast<double>(a[k]) - static_cast<double>(b[k])) <= allowed)) return false;
  }
  return true;
}

}  // namespace trainyard
