#include "print/explain.hpp"
#include "print/result_json.hpp"
#include "trainyard/report/run_text.hpp"

namespace trainyard::program {
namespace {

double share(Nanoseconds part, Nanoseconds whole) {
  return whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0;
}

class Writer {
 public:
  explicit Writer(const ExplainResult& result)
      : result_(result),
        run_(result.run),
        why_(result.explanation),
        graph_(run_.problem.graph()),
        cluster_(run_.problem.cluster()),
        makespan_(run_.timeline.makespan) {}

  Json whole() const {
    Json object = begin_result("explain");
    object["model"] = run_.model;
    object["cluster"] = cluster_.name();
    object["placer"] = run_.placer.empty() ? Json(nullptr) : Json(run_.placer);
    object["graph"] = graph_text(run_.schedule);
    object["makespan_ns"] = makespan_.count;
    object["fits"] = run_.summary.fits;
    object["lower_bound_ns"] = run_.summary.bound.value.count;
    object["lower_bound"] = run_.summary.bound.name;
    object["path"] = {{"ops_ns", why_.ops.count}, {"transfers_ns", why_.transfers.count}, {"gaps_ns", why_.gaps.count}};
    object["shares"] = shares();
    object["critical_path"] = path();
    object["waits"] = waits();
    object["devices"] = devices();
    object["what_if"] = what_ifs();
    add_evidence(object, run_.summary);
    return object;
  }

 private:
  Json task_json(OpId op, std::size_t transfer) const {
    if (!op.is_none()) return {{"op", graph_.name(op)}, {"device", cluster_.device(run_.schedule.placement[op]).name}};
    const Transfer& sent = run_.timeline.transfers[transfer];
    return {{"tensor", graph_.name(sent.tensor)},
            {"from", cluster_.device(sent.from).name},
            {"to", cluster_.device(sent.to).name},
            {"bytes", sent.bytes.count}};
  }

  Json shares() const {
    Json list = Json::array();
    for (const PathShare& each : why_.shares) {
      Json entry = {{"device", cluster_.device(each.device).name}};
      if (!each.to.is_none())
        entry = {{"from", cluster_.device(each.device).name}, {"to", cluster_.device(each.to).name}};
      entry["tasks"] = each.tasks;
      entry["time_ns"] = each.time.count;
      entry["share"] = share(each.time, makespan_);
      entry["waited_ns"] = each.waited.count;
      list.push_back(std::move(entry));
    }
    return list;
  }

  Json path() const {
    Json list = Json::array();
    for (const PathTask& task : why_.path) {
      Json entry = task_json(task.step.op, task.step.transfer);
      entry["ready_ns"] = task.ready.count;
      entry["start_ns"] = task.start.count;
      entry["end_ns"] = task.end.count;
      entry["share"] = share(task.end - task.start, makespan_);
      entry["cause"] = task.step.cause == PathStep::Cause::start  ? "start"
                       : task.step.cause == PathStep::Cause::data ? "data"
                       : task.step.op.is_none()                   ? "link"
                                                                  : "device";
      entry["gap_ns"] = task.gap.count;
      entry["waited_ns"] = task.waited().count;
      if (task.waited() > Nanoseconds{0}) {
        if (!task.channel.is_none()) entry["waited_for"] = cluster_.channel(task.channel).name;
        entry["busy_meanwhile_ns"] = task.busy_meanwhile.count;
        entry["tasks_meanwhile"] = task.tasks_meanwhile;
      }
      list.push_back(std::move(entry));
    }
    return list;
  }

  Json waits() const {
    Json list = Json::array();
    for (const Wait& wait : result_.waits) {
      const PathTask& task = why_.path[wait.task];
      Json entry = task_json(task.step.op, task.step.transfer), meanwhile = Json::array();
      for (const Occupant& each : wait.occupants) {
        meanwhile.push_back(task_json(each.op, each.transfer));
        meanwhile.back()["time_ns"] = each.time.count;
      }
      entry["waited_ns"] = task.waited().count;
      entry["idle_ns"] = (task.waited() - task.busy_meanwhile).count;
      entry["meanwhile"] = std::move(meanwhile);
      list.push_back(std::move(entry));
    }
    return list;
  }

  Json devices() const {
    Json list = Json::array();
    for (const DeviceId id : run_.problem.devices()) {
      const DeviceTime& time = why_.devices[id];
      list.push_back({{"device", cluster_.device(id).name},
                      {"running_ns", time.running.count},
                      {"awaiting_ns", time.awaiting.count},
                      {"idle_ns", time.idle.count},
                      {"done_ns", time.done.count}});
    }
    return list;
  }

  Json what_ifs() const {
    Json list = Json::array();
    for (const WhatIfResult& each : result_.what_ifs) {
      list.push_back({{"what_if", each.what_if.name},
                      {"makespan_ns", each.makespan.count},
                      {"saved_ns", (makespan_ - each.makespan).count},
                      {"saved", share(makespan_ - each.makespan, makespan_)},
                      {"fits", each.fits}});
      if (each.placed_again) list.back()["placed_again_ns"] = each.placed_again->count;
    }
    return list;
  }

  const ExplainResult& result_;
  const RunResult& run_;
  const Explanation& why_;
  const Graph& graph_;
  const Cluster& cluster_;
  const Nanoseconds makespan_;
};

}  // namespace

std::string explain_json(const ExplainResult& result, const std::vector<std::string>& warnings) {
  return result_text(Writer{result}.whole(), warnings);
}

}  // namespace trainyard::program
