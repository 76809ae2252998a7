#include "trainyard/report/run_csv.hpp"

#include <fmt/format.h>

#include <ostream>
#include <vector>

#include "trainyard/core/printable.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/simulate/account/memory_curve.hpp"

namespace trainyard {

void write_ops_csv(const Run& run, std::ostream& out) {
  check_sizes(run.problem, run.schedule.placement, run.timeline);
  const Graph& graph = run.problem.graph();
  out << "op,type,phase,layer,device,start_ns,end_ns,source\n";
  for (const OpId op : run.problem.ops()) {
    const DeviceId device = run.schedule.placement[op];
    const Span& span = run.timeline.ops[op];
    out << fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(graph.name(op)), csv_field(graph.type(op)),
                       name_of(graph.phase(op)), csv_field(graph.layer(op)),
                       csv_field(run.problem.cluster().device(device).name), span.start.count, span.end.count,
                       csv_field(run.problem.cost_source(op, device).name));
  }
}

void write_transfers_csv(const Run& run, std::ostream& out) {
  check_sizes(run.problem, run.schedule.placement, run.timeline);
  check_transfers(run.problem, run.timeline);
  const Cluster& cluster = run.problem.cluster();
  out << "tensor,bytes,from,to,ready_ns,start_ns,end_ns\n";
  for (const Transfer& transfer : run.timeline.transfers) {
    std::vector<DeviceId> receivers{transfer.to};
    receivers.insert(receivers.end(), transfer.also_to.begin(), transfer.also_to.end());
    for (const DeviceId to : receivers)
      out << fmt::format("{},{},{},{},{},{},{}\n", csv_field(run.problem.graph().name(transfer.tensor)),
                         transfer.bytes.count, csv_field(cluster.device(transfer.from).name),
                         csv_field(cluster.device(to).name), transfer.ready.count, transfer.start.count,
                         transfer.end.count);
  }
}

void write_links_csv(const Run& run, std::ostream& out) {
  check_sizes(run.problem, run.schedule.placement, run.timeline);
  out << "link,from,to,busy_ns,bytes\n";
  for (const ChannelId id : run.problem.cluster().channels()) {
    const Channel& channel = run.problem.cluster().channel(id);
    const ChannelUse& use = run.timeline.channels[id];
    if (use.bytes.count == 0) continue;
    out << fmt::format("{},{},{},{},{}\n", csv_field(channel.name), csv_field(channel.from), csv_field(channel.to),
                       use.busy.count, use.bytes.count);
  }
}

void write_memory_csv(const Run& run, std::ostream& out) {
  check_sizes(run.problem, run.schedule.placement, run.timeline);
  check_transfers(run.problem, run.timeline);
  const auto curves = memory_curves(run.problem, run.schedule.placement, run.timeline);
  out << "device,at_ns,held_bytes\n";
  for (const DeviceId device : run.problem.devices())
    for (const MemoryPoint& point : curves[device])
      out << fmt::format("{},{},{}\n", csv_field(run.problem.cluster().device(device).name), point.at.count,
                         point.held.count);
}

}  // namespace trainyard
