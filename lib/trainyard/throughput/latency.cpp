#include "trainyard/throughput/latency.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <set>
#include <vector>

namespace trainyard {
namespace {

constexpr std::int64_t kNoReturns = -1;  // no path from an op of the device

/// The call of each op. Ops of a piece share a call; an op on a CPU is a call of its own.
std::vector<std::size_t> find_calls(const LoadProblem& problem, const LoadPlacement& placement, std::size_t& pieces,
                                    std::size_t& calls) {
  std::vector<std::size_t> call(problem.op_count(), 0);
  for (const DeviceId device : problem.devices()) {
    if (!problem.kind(problem.kind_of(device)).pays) continue;
    std::vector<std::int64_t> returns(problem.op_count(), kNoReturns);
    std::map<std::int64_t, std::size_t> numbers;
    for (const OpId op : problem.topological_order()) {
      const bool here = placement[op] == device;
      std::int64_t most = here ? 0 : kNoReturns;
      for (const TensorId tensor : problem.inputs(op)) {
        const OpId from = problem.tensor(tensor).producer;
        const std::int64_t before = returns[from.index()];
        most = std::max(most, before + (here && before != kNoReturns && placement[from] != device ? 1 : 0));
      }
      returns[op.index()] = most;
      if (!here) continue;
      const auto [at, is_new] = numbers.try_emplace(most, calls);
      if (is_new) ++calls;
      call[op.index()] = at->second;
    }
    pieces += numbers.size();
  }
  for (const OpId op : problem.ops())
    if (!problem.kind(problem.kind_of(placement[op])).pays) call[op.index()] = calls++;
  return call;
}

}  // namespace

LatencyReport evaluate_latency(const LoadProblem& problem, const LoadPlacement& placement) {
  LatencyReport report;
  std::size_t calls = 0;
  const std::vector<std::size_t> call = find_calls(problem, placement, report.pieces, calls);
  std::vector<Picoseconds> length(calls), ready(calls);
  std::vector<std::set<std::size_t>> after(calls);
  std::vector<std::size_t> awaited(calls, 0);
  IdMap<DeviceId, std::int64_t> held(problem.device_count(), 0);
  for (const OpId op : problem.ops()) {
    length[call[op.index()]] += std::max(problem.time(op, problem.kind_of(placement[op])), Picoseconds{0});
    held[placement[op]] += problem.op(op).size.count;
  }
  for (const TensorId id : problem.tensors()) {
    const LoadTensor& tensor = problem.tensor(id);
    const std::size_t from = call[tensor.producer.index()];
    std::map<std::size_t, KindId> receivers;
    for (const OpId reader : tensor.consumers)
      if (call[reader.index()] != from) receivers.emplace(call[reader.index()], problem.kind_of(placement[reader]));
    if (receivers.empty()) continue;
    length[from] += problem.cost(id, problem.kind_of(placement[tensor.producer]));
    for (const auto& [to, kind] : receivers) {
      length[to] += problem.cost(id, kind);
      if (after[from].insert(to).second) ++awaited[to];
    }
  }
  for (const DeviceId device : problem.devices())
    if (const auto& memory = problem.kind(problem.kind_of(device)).memory)
      report.excess += Bytes{std::max<std::int64_t>(held[device] - memory->count, 0)};

  std::queue<std::size_t> free;
  std::size_t done = 0;
  for (std::size_t i = 0; i < calls; ++i)
    if (awaited[i] == 0) free.push(i);
  for (; !free.empty(); ++done) {
    const std::size_t at = free.front();
    free.pop();
    const Picoseconds finish = ready[at] + length[at];
    report.latency = std::max(report.latency, finish);
    for (const std::size_t next : after[at]) {
      ready[next] = std::max(ready[next], finish);
      if (--awaited[next] == 0) free.push(next);
    }
  }
  report.cyclic = done < calls;
  return report;
}

}  // namespace trainyard
