#include "trainyard/place/parallel/plan_setting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/parallel/replicas_placer.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/tied_copies.hpp"

namespace trainyard {
namespace {

/// Limit on the number of devices whose ring order is searched.
constexpr std::size_t kMostInRing = 64;
/// Samples for each device if the batch is unknown.
constexpr std::size_t kSamples = 16;

bool spans_hosts(const Cluster& cluster) { return cluster.spec().fabric && cluster.spec().fabric->hosts > 1; }

/// Weakness of a device: the time of all ops on it, and its negated memory. Across several hosts, that of a host's
/// worst device.
using Weakness = std::pair<Nanoseconds, std::int64_t>;

std::vector<Weakness> weaknesses(const Problem& problem, const std::vector<DeviceId>& devices) {
  std::vector<Nanoseconds> times(problem.column_count(), Nanoseconds{0});
  for (const OpId op : problem.ops())
    for (std::size_t column = 0; column < times.size(); ++column) {
      const Nanoseconds time = problem.durations()[op.index() * times.size() + column];
      times[column] += time == Problem::kNever ? problem.shortest(op) : time;
    }
  const std::size_t together = spans_hosts(problem.cluster()) ? problem.cluster().spec().fabric->devices_per_host : 1;
  const auto host = [&](DeviceId device) { return device.index() / together; };
  std::map<std::size_t, Weakness> of_host;
  for (const DeviceId device : devices) {
    const auto memory = problem.cluster().device(device).memory;
    const Weakness own{times[problem.column(device)],
                       memory ? -memory->count : std::numeric_limits<std::int64_t>::min()};
    Weakness& worst = of_host.try_emplace(host(device), own).first->second;
    worst = {std::max(worst.first, own.first), std::max(worst.second, own.second)};
  }
  std::vector<Weakness> each;
  for (const DeviceId device : devices) each.push_back(of_host.at(host(device)));
  return each;
}

std::vector<DeviceId> devices_of_plans(const Problem& problem) {
  const std::vector<DeviceId> devices = worthy_devices(problem);
  return spans_hosts(problem.cluster()) || devices.size() > kMostInRing ? devices : ring_order(problem, devices);
}

std::vector<DeviceId> in_order(const Problem& problem, const std::vector<DeviceId>& devices, DeviceOrder order) {
  if (order == DeviceOrder::given) return devices;
  const std::vector<Weakness> weakness = weaknesses(problem, devices);
  std::vector<std::size_t> sorted(devices.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::stable_sort(sorted, [&](std::size_t a, std::size_t b) {
    return order == DeviceOrder::best_first ? weakness[a] < weakness[b] : weakness[b] < weakness[a];
  });
  std::vector<DeviceId> result;
  for (const std::size_t i : sorted) result.push_back(devices[i]);
  return result;
}

StagePlan stage_plan(const ParallelPlan& plan, const ChainOfBlocks& chain, std::size_t batch) {
  StagePlan stages{.schedule = plan.schedule,
                   .chunks = plan.chunks,
                   .microbatches = batch / plan.data / plan.microbatch,
                   .replicas = plan.replicas(),
                   .context = plan.context,
                   .exchange = plan.exchange,
                   .tensor = plan.tensor,
                   .sequence = plan.sequence,
                   .zero = plan.zero,
                   .stages = chain.stages(plan.cuts)};
  stages.degrees = plan.degrees;
  if (!plan.recompute.empty()) stages.recompute = chain.recomputed(plan);
  stages.experts = plan.experts;
  stages.slices = plan.slices;
  stages.bucket = plan.bucket;
  return stages;
}

bool whole_collectives(PlanDetail detail) { return detail != PlanDetail::rings; }

/// The devices that the plan uses.
std::vector<DeviceId> mesh_of(const ParallelPlan& plan, const std::vector<DeviceId>& devices) {
  return {devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(plan.devices())};
}

}  // namespace

std::vector<DeviceOrder> device_orders(const Problem& problem) {
  std::vector<DeviceOrder> orders;
  std::set<std::vector<Weakness>> known;
  const std::vector<DeviceId> devices = devices_of_plans(problem);
  for (const DeviceOrder order : {DeviceOrder::given, DeviceOrder::best_first, DeviceOrder::best_last})
    if (known.insert(weaknesses(problem, in_order(problem, devices, order))).second) orders.push_back(order);
  return orders;
}

void check_training(const Graph& graph) { check_batch(graph, "no-training", "give the graph of a training step"); }

std::size_t batch_of(const PlanPlacerOptions& options, std::size_t devices) {
  if (!options.batch) return kSamples * devices;
  if (*options.batch < 1)
    refuse("range", fmt::format("a batch of {} samples cannot be planned", *options.batch),
           "give a batch of 1 or more, or none for 16 samples per device");
  return static_cast<std::size_t>(*options.batch);
}

PlanSetting::PlanSetting(const Problem& on, const PlanPlacerOptions& asked, DeviceOrder by)
    : problem((check_training(on.graph()), on)),
      options(asked),
      order(by),
      devices(in_order(on, devices_of_plans(on), by)),
      batch(batch_of(asked, devices.size())),
      layers(find_layers(on.graph())) {}

bool PlanSetting::has_hosts() const { return spans_hosts(problem.cluster()); }

bool PlanSetting::may_differ_by_stage() const {
  if (clips(problem.graph())) return false;
  std::vector<std::size_t> cuts(chain.names().size() - 1);
  std::iota(cuts.begin(), cuts.end(), std::size_t{1});
  const IdMap<LayerId, std::size_t> blocks = chain.stages(cuts);
  IdMap<OpId, std::size_t> place;
  for (const OpId op : problem.graph().ops()) place.push_back(blocks[layers.of[op]]);
  const TiedCopiesGraph tied = tie_copies(problem.graph(), copies_by_place(problem.graph(), place));
  const Graph& graph = tied.graph;
  IdMap<OpId, std::size_t> block;
  for (const OpId op : graph.ops()) block.push_back(place[tied.original[op]]);
  block = places_of_groups(graph, std::move(block));
  const IdMap<TensorId, bool> gradients = parameter_gradients(graph);
  for (const TensorId tensor : graph.tensors()) {
    const OpId maker = graph.producer(tensor);
    if (graph.phase(maker) == Phase::update || !gradients[tensor]) continue;
    for (const OpId reader : graph.consumers(tensor))
      if (block[reader] != block[maker] && graph.phase(reader) != Phase::update) return false;
  }
  return true;
}

std::optional<PlanDetail> PlanSetting::detail_of(const ParallelPlan& plan) const {
  const PlanDetail asked = options.detail;
  for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole, PlanDetail::folded}) {
    if (asked != PlanDetail::fitting && asked != detail) continue;
    if (asked == PlanDetail::fitting && detail == PlanDetail::rings && has_hosts()) continue;
    if (detail == PlanDetail::folded && !plan.degrees.empty()) continue;  // its replicas differ by stage
    const Collective collective = whole_collectives(detail) ? Collective::whole : Collective::ring;
    if (planned_ops(problem.graph(), plan, batch / plan.data / plan.microbatch, collective,
                    detail == PlanDetail::folded) <= static_cast<double>(limits::kRewrittenOps))
      return detail;
  }
  return std::nullopt;
}

PlannedSchedule PlanSetting::planned(const ParallelPlan& plan, const std::function<bool()>& stop, std::size_t most_ops,
                                     bool simulated) const {
  StagePlan stages = stage_plan(plan, chain, batch);
  const PlanDetail last = options.detail == PlanDetail::fitting ? PlanDetail::folded : options.detail;
  const PlanDetail detail = detail_of(plan).value_or(last);
  stages.collective = whole_collectives(detail) ? Collective::whole : Collective::ring;
  stages.fold = detail == PlanDetail::folded && plan.replicas() * plan.tensor > 1;
  const double of_each = planned_ops(problem.graph(), plan, stages.microbatches, Collective::whole, true);
  stages.most_classes = std::max(std::size_t{1}, static_cast<std::size_t>(static_cast<double>(most_ops) / of_each));
  PlannedSchedule made = schedule_of(problem, layers, stages, mesh_of(plan, devices), stop, simulated);
  made.schedule.parallel = plan;
  made.schedule.parallel->order = order;
  if (stages.fold && options.detail == PlanDetail::fitting)
    made.schedule.notes.push_back(
        fmt::format("the plan is too large to be simulated unfolded: of its {} replicas of {} tensor ranks, those that "
                    "do the same as another are left out",
                    plan.replicas(), plan.tensor));
  return made;
}

}  // namespace trainyard
