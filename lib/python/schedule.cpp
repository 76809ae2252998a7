#include "trainyard/problem/schedule.hpp"

#include <fmt/format.h>

#include <sstream>

#include "bindings.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/io/foreign/trace.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/formats/timeline_file.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/report/page.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard::python {
namespace {

Policy policy_of(const std::string& word) {
  if (word == "fifo") return Policy::fifo;
  if (word == "priority") return Policy::priority;
  if (word == "strict") return Policy::strict;
  refuse("unknown-policy", fmt::format("'{}' is not a policy", word), "give one of fifo, priority, strict");
}

Schedule make_schedule(const py::object& placement, const std::optional<std::string>& policy,
                       const std::optional<Reals>& priority, const std::optional<py::sequence>& order) {
  const Devices devices = device_indices(placement, "placement");
  if (devices.ndim() != 1)
    refuse("size", fmt::format("placement has {} dimensions", devices.ndim()), "give one device index for each op");
  Schedule schedule{.placement = Placement(static_cast<std::size_t>(devices.size()))};
  for (const OpId op : schedule.placement.ids())
    schedule.placement[op] = DeviceId{static_cast<std::size_t>(devices.data()[op.index()])};
  if (priority) {
    check_size(*priority, schedule.placement.size(), "priority");
    schedule.priority = IdMap<OpId, double>{std::vector<double>(priority->data(), priority->data() + priority->size())};
  }
  if (order)
    for (const py::handle ops : *order) {
      std::vector<OpId> turn;
      const Integers indices = integers(ops, "order");
      for (py::ssize_t i = 0; i < indices.size(); ++i) {
        if (indices.data()[i] < 0 || static_cast<std::size_t>(indices.data()[i]) >= schedule.placement.size())
          refuse(
              "order",
              fmt::format("there is no op {} in a placement of {} ops", indices.data()[i], schedule.placement.size()),
              "list the index of each op once, under its device");
        turn.push_back(OpId{static_cast<std::size_t>(indices.data()[i])});
      }
      schedule.order.push_back(std::move(turn));
    }
  schedule.policy = policy ? policy_of(*policy) : order ? Policy::strict : priority ? Policy::priority : Policy::fifo;
  return schedule;
}

std::string text_of(const Schedule& schedule, const Problem& problem) {
  const py::gil_scoped_release release;
  std::ostringstream text;
  write_schedule(schedule, problem, nullptr, text);
  return std::move(text).str();
}

void bind_schedule_columns(py::class_<Schedule>& schedule) {
  schedule
      .def_property_readonly(
          "placement",
          [](const py::object& self) {
            Schedule& s = self.cast<Schedule&>();
            return view<std::int32_t>(self, s.placement.data(), s.placement.size(), true);
          },
          "int32[ops]: the device index of each op. A writable view.")
      .def_property_readonly(
          "priority",
          [](const py::object& self) {
            Schedule& s = self.cast<Schedule&>();
            return view<double>(self, s.priority.data(), s.priority.size(), true);
          },
          "float64[ops], or empty: a writable view.")
      .def_property_readonly(
          "order",
          [](const Schedule& s) {
            py::list order;
            for (const auto& turn : s.order)
              order.append(array_of<std::int64_t>(turn, [](OpId op) { return op.index(); }));
            return order;
          },
          "int64[] for each device: its ops in turn, under policy strict.")
      .def_property_readonly("policy", [](const Schedule& s) { return name_of(s.policy); })
      .def_property_readonly(
          "rewritten", [](const Schedule& s) { return !s.rewrites.empty(); },
          "Whether the schedule is for a rewritten graph: with ops split, or replicated.")
      .def_property_readonly("placer", [](const Schedule& s) { return s.placer; })
      .def_property_readonly("notes", [](const Schedule& s) { return s.notes; })
      .def(
          "__eq__", [](const Schedule& a, const Schedule& b) { return a == b; }, py::is_operator())
      .def("__repr__", [](const Schedule& s) {
        return fmt::format("<trainyard.Schedule: {} ops, {}>", s.placement.size(), name_of(s.policy));
      });
}

void bind_schedule_class(py::module_& module) {
  py::class_<Schedule> schedule(module, "Schedule",
                                "A device for each op, and optionally an order. Placement and priority are "
                                "writable views; every use checks them again.");
  schedule
      .def(py::init(&make_schedule), py::arg("placement"), py::kw_only(), py::arg("policy") = py::none(),
           py::arg("priority") = py::none(), py::arg("order") = py::none(),
           "placement: int[ops], the device index of each op. priority: float[ops], higher is more urgent.\n"
           "order: for each device the indices of its ops in turn. policy: fifo, priority or strict; default:\n"
           "strict if there is an order, priority if there are priorities, else fifo.")
      .def_static(
          "read", [](const std::string& path, const Problem& p) { return read_schedule_or_map(path, p); },
          py::arg("path"), py::arg("problem"), py::call_guard<py::gil_scoped_release>(),
          "Reads a trainyard-schedule/1 file, or a device map of accelerate, and checks it against the problem.")
      .def_static(
          "parse", [](const std::string& text, const Problem& p) { return parse_schedule(text, "schedule", p); },
          py::arg("text"), py::arg("problem"), py::call_guard<py::gil_scoped_release>())
      .def("to_json", &text_of, py::arg("problem"), "The schedule as trainyard-schedule/1 text.")
      .def(
          "write",
          [](const Schedule& s, const std::string& path, const Problem& p) {
            write_file(path, [&](std::ostream& out) { write_schedule(s, p, nullptr, out); });
          },
          py::arg("path"), py::arg("problem"), "Writes a trainyard-schedule/1 file.")
      .def("copy", [](const Schedule& s) { return s; });
  bind_schedule_columns(schedule);
}

/// Starts or ends of all ops.
py::array spans_of(const py::object& self, Nanoseconds Span::*member) {
  const auto& ops = self.cast<const Result&>().timeline.ops;
  return member_view<std::int64_t>(self, ops.data(), ops.size(), member);
}

py::dict transfers_of(const py::object& self) {
  const auto& all = self.cast<const Result&>().timeline.transfers;
  const Transfer* rows = all.data();
  py::dict columns;
  columns["tensor"] = member_view<std::uint32_t>(self, rows, all.size(), &Transfer::tensor);
  columns["source"] = member_view<std::uint32_t>(self, rows, all.size(), &Transfer::from);
  columns["target"] = member_view<std::uint32_t>(self, rows, all.size(), &Transfer::to);
  columns["bytes"] = member_view<std::int64_t>(self, rows, all.size(), &Transfer::bytes);
  columns["ready_ns"] = member_view<std::int64_t>(self, rows, all.size(), &Transfer::ready);
  columns["start_ns"] = member_view<std::int64_t>(self, rows, all.size(), &Transfer::start);
  columns["end_ns"] = member_view<std::int64_t>(self, rows, all.size(), &Transfer::end);
  return columns;
}

py::dict devices_of(const py::object& self) {
  const auto& all = self.cast<const Result&>().timeline.devices;
  const DeviceUse* rows = all.data();
  py::dict columns;
  columns["busy_ns"] = member_view<std::int64_t>(self, rows, all.size(), &DeviceUse::busy);
  columns["exposed_communication_ns"] =
      member_view<std::int64_t>(self, rows, all.size(), &DeviceUse::exposed_communication);
  columns["peak_bytes"] = member_view<std::int64_t>(self, rows, all.size(), &DeviceUse::peak);
  columns["peak_at_ns"] = member_view<std::int64_t>(self, rows, all.size(), &DeviceUse::peak_at);
  return columns;
}

py::dict channels_of(const py::object& self) {
  const auto& all = self.cast<const Result&>().timeline.channels;
  py::dict columns;
  columns["busy_ns"] = member_view<std::int64_t>(self, all.data(), all.size(), &ChannelUse::busy);
  columns["bytes"] = member_view<std::int64_t>(self, all.data(), all.size(), &ChannelUse::bytes);
  return columns;
}

py::list path_of(const Result& result) {
  constexpr const char* kCauses[] = {"start", "data", "resource"};
  py::list steps;
  for (const PathStep& step : critical_path(result.problem, result.schedule, result.timeline))
    steps.append(step.op.is_none()
                     ? py::make_tuple("transfer", step.transfer, kCauses[static_cast<std::size_t>(step.cause)])
                     : py::make_tuple("op", step.op.index(), kCauses[static_cast<std::size_t>(step.cause)]));
  return steps;
}

Run run_of_result(const Result& result) {
  Run run = run_of(result.problem, result.schedule, result.timeline, best_lower_bound(result.problem));
  run.placer = result.schedule.placer;
  return run;
}

std::string svg_of(const Result& result) {
  const py::gil_scoped_release release;
  std::ostringstream text;
  write_svg(run_of_result(result), text);
  return std::move(text).str();
}

void bind_timeline_files(py::class_<Result>& timeline) {
  timeline
      .def(
          "write",
          [](const Result& r, const std::string& path) {
            write_file(path,
                       [&](std::ostream& out) { write_timeline(r.timeline, r.problem, r.schedule.placement, out); });
          },
          py::arg("path"), "Writes a trainyard-timeline/1 file.")
      .def(
          "write_trace",
          [](const Result& r, const std::string& path) {
            write_file(path, [&](std::ostream& out) { write_trace(r.problem, r.schedule, r.timeline, {}, out); });
          },
          py::arg("path"), "Writes Chrome trace events, for https://ui.perfetto.dev.")
      .def(
          "write_page",
          [](const Result& r, const std::string& path) {
            write_file(path, [&](std::ostream& out) { write_page(run_of_result(r), out); });
          },
          py::arg("path"), "Writes one self-contained HTML page.")
      .def("svg", &svg_of, "A drawing (SVG): one row per device and per used link.")
      .def("_repr_html_", &svg_of);
}

void bind_timeline_columns(py::class_<Result>& timeline) {
  timeline
      .def_property_readonly(
          "start_ns", [](const py::object& self) { return spans_of(self, &Span::start); },
          "int64[ops]: the start of each op in ns.")
      .def_property_readonly(
          "end_ns", [](const py::object& self) { return spans_of(self, &Span::end); },
          "int64[ops]: the end of each op in ns.")
      .def_property_readonly(
          "device",
          [](const py::object& self) {
            const Placement& placement = self.cast<const Result&>().schedule.placement;
            return view<std::int32_t>(self, placement.data(), placement.size());
          },
          "int32[ops]: the device of each op.")
      .def_property_readonly(
          "transfers", &transfers_of,
          "Columns by name: tensor, source, target, bytes, ready_ns, start_ns, end_ns; one row per transfer.")
      .def_property_readonly(
          "devices", &devices_of,
          "Columns by name: busy_ns, exposed_communication_ns, peak_bytes, peak_at_ns; one row per device.")
      .def_property_readonly("channels", &channels_of, "Columns by name: busy_ns, bytes; one row per channel.")
      .def("critical_path", &path_of,
           "The tasks from time 0 to the makespan: (\"op\" or \"transfer\", index, \"start\", \"data\" or "
           "\"resource\").")
      .def("__repr__", [](const Result& r) {
        return fmt::format("<trainyard.Timeline: {} ops, {} transfers, {} ns>", r.timeline.ops.size(),
                           r.timeline.transfers.size(), r.timeline.makespan.count);
      });
}

}  // namespace

void bind_schedule(py::module_& module) {
  bind_schedule_class(module);
  py::class_<Result> timeline(module, "Timeline", "The result of a simulation. Arrays are views.");
  timeline
      .def_property_readonly(
          "makespan_ns", [](const Result& r) { return r.timeline.makespan.count; },
          "The end of the last op: the predicted step time in ns.")
      .def_property_readonly(
          "fits", [](const Result& r) { return r.timeline.fits(); }, "Whether every device has enough memory.")
      .def_property_readonly(
          "problem", [](const Result& r) { return r.problem; },
          "The problem that was scheduled, with the rewrites of the schedule (if any) applied.")
      .def_property_readonly(
          "schedule", [](const Result& r) -> const Schedule& { return r.schedule; }, py::return_value_policy::copy);
  bind_timeline_columns(timeline);
  bind_timeline_files(timeline);
}

}  // namespace trainyard::python
