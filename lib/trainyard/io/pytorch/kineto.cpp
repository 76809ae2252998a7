#include "trainyard/io/pytorch/kineto.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_value.hpp"
#include "trainyard/io/pytorch/pytorch_trace.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::int64_t kMostMicroseconds = 4'000'000'000'000'000;  // 4e18 ns: the year 2096, without overflow of ends

/// Converts microseconds such as "4458676522690.655" exactly to nanoseconds, without going through a double.
std::optional<std::int64_t> exact_nanoseconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const std::size_t point = text.find('.');
  if (text.find_first_of("eE") != std::string_view::npos || text.substr(0, point).size() > 16) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value < static_cast<double>(kMostMicroseconds)))
      return std::nullopt;
    return static_cast<std::int64_t>(value * 1000) * (negative ? -1 : 1);
  }
  std::int64_t whole = 0, fraction = 0;
  for (const char c : text.substr(0, point)) whole = 10 * whole + (c - '0');
  if (whole > kMostMicroseconds) return std::nullopt;
  std::string_view decimals = point == std::string_view::npos ? std::string_view{} : text.substr(point + 1);
  decimals = decimals.substr(0, 3);
  for (std::size_t i = 0; i < 3; ++i) fraction = 10 * fraction + (i < decimals.size() ? decimals[i] - '0' : 0);
  return (whole * 1000 + fraction) * (negative ? -1 : 1);
}

std::int64_t kineto_number(const JsonValue& value, std::int64_t otherwise) {
  std::int64_t number = 0;
  const std::string_view text = value.text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : otherwise;
}

bool is_launch(std::string_view name) {
  for (const std::string_view part : {"aunch", "emcpy", "emset"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

class KinetoReader {
 public:
  KinetoReader(std::string_view text, const std::string& name) : findings_(name, text), text_(text) {}

  KinetoTrace read() {
    JsonTree tree;
    const auto root = parse_json(text_, tree, findings_, {"traceEvents", [&](JsonValue, JsonValue event) {
                                                            read_event(event);
                                                            return !findings_.full();
                                                          }});
    if (root && position_ == 0)
      findings_.add(root->begin_offset(), "kineto-empty", "the file has no trace events",
                    "give a file that torch.profiler has written (export_chrome_trace)");
    findings_.raise_if_any();
    if (const auto devices = root->find("deviceProperties"); devices && devices->kind() == JsonKind::array)
      for (const JsonValue device : devices->children()) {
        const auto name = device.find("name");
        const auto id = device.find("id");
        const auto position = static_cast<std::int64_t>(trace_.devices.size());
        trace_.devices[id ? kineto_number(*id, position) : position] = name ? name->text() : "";
      }
    if (const auto info = root->find("distributedInfo"))
      if (const auto rank = info->find("rank")) trace_.rank = kineto_number(*rank, 0);
    sort_events();
    find_callers();
    return std::move(trace_);
  }

 private:
  enum class Category : std::uint8_t { other, op, label, launch, kernel, copy, set };
  static Category category_of(std::string_view word) {
    if (word == "cpu_op" || word == "Operator") return Category::op;
    if (word == "user_annotation") return Category::label;
    if (word == "kernel") return Category::kernel;
    if (word == "gpu_memcpy") return Category::copy;
    if (word == "gpu_memset") return Category::set;
    if (word == "cuda_runtime" || word == "cuda_driver" || word == "hip_runtime" || word == "xpu_runtime")
      return Category::launch;
    return Category::other;
  }

  struct Fields {
    std::optional<JsonValue> phase, category, name, process, thread, start, duration, arguments;
  };

  void read_event(const JsonValue& value) {
    ++position_;
    if (!expect(value, JsonKind::object, findings_)) return;
    Fields fields;
    for (const JsonValue member : value.children()) {
      const std::string_view key = member.key();
      if (key == "ph")
        fields.phase = member;
      else if (key == "cat")
        fields.category = member;
      else if (key == "name")
        fields.name = member;
      else if (key == "pid")
        fields.process = member;
      else if (key == "tid")
        fields.thread = member;
      else if (key == "ts")
        fields.start = member;
      else if (key == "dur")
        fields.duration = member;
      else if (key == "args")
        fields.arguments = member;
    }
    if (!fields.phase || fields.phase->text() != "X" || !fields.category) return;
    const Category category = category_of(fields.category->text());
    if (category == Category::other) return;
    const auto start = fields.start ? exact_nanoseconds(fields.start->text()) : std::nullopt;
    const auto duration = fields.duration ? exact_nanoseconds(fields.duration->text()) : std::optional<std::int64_t>{0};
    if (!fields.name || !fields.process || !fields.thread || !start || !duration || *duration < 0)
      return findings_.add(value.begin_offset(), "kineto-event",
                           "an event needs \"name\", \"pid\", \"tid\", \"ts\" and a \"dur\" of 0 or more",
                           "give the file as torch.profiler has written it");
    take(category, fields, *start, *duration);
  }

  void take(Category category, const Fields& fields, std::int64_t start, std::int64_t duration) {
    const std::uint32_t process = trace_.words.number(fields.process->text());
    const std::uint32_t thread = trace_.words.number(fields.thread->text());
    const std::string_view name = fields.name->text();
    if (category == Category::op || category == Category::label) {
      HostEvent event{.start = start,
                      .duration = duration,
                      .name = trace_.words.number(name),
                      .signature = 0,
                      .thread = thread,
                      .process = process,
                      .position = position_,
                      .label = category == Category::label};
      read_host(fields, event);
      trace_.events.push_back(event);
    } else if (category == Category::launch) {
      LaunchEvent launch{
          .start = start, .duration = duration, .thread = thread, .process = process, .launches = is_launch(name)};
      if (fields.arguments)
        if (const auto correlation = fields.arguments->find("correlation"))
          launch.correlation = kineto_number(*correlation, 0);
      trace_.launches.push_back(launch);
    } else {
      using Kind = GpuActivity::Kind;
      GpuActivity activity{.kind = category == Category::kernel ? Kind::kernel
                                   : category == Category::copy ? Kind::copy
                                                                : Kind::set,
                           .start = start,
                           .duration = duration,
                           .name = trace_.words.number(name),
                           .device = process,
                           .stream = thread};
      if (fields.arguments)
        for (const JsonValue argument : fields.arguments->children()) {
          const std::string_view key = argument.key();
          if (key == "correlation")
            activity.correlation = kineto_number(argument, 0);
          else if (key == "External id" || key == "external id")
            activity.external = kineto_number(argument, 0);
          else if (key == "device")
            activity.device = trace_.words.number(argument.text());
          else if (key == "stream")
            activity.stream = trace_.words.number(argument.text());
        }
      trace_.activities.push_back(activity);
    }
  }

  void read_host(const Fields& fields, HostEvent& event) {
    if (!event.label) {
      const std::int64_t pid = kineto_number(*fields.process, -1);
      if (std::ranges::find(trace_.pids, pid) == trace_.pids.end()) trace_.pids.push_back(pid);
    }
    std::optional<JsonValue> dims, types;
    if (fields.arguments)
      for (const JsonValue argument : fields.arguments->children()) {
        const std::string_view key = argument.key();
        if (key == "Record function id")
          event.rf_id = kineto_number(argument, -1);
        else if (key == "External id" || key == "external id")
          event.external = kineto_number(argument, 0);
        else if (key == "Ev Idx")
          event.index = kineto_number(argument, 0);
        else if (key == "Input Dims")
          dims = argument;
        else if (key == "Input type")
          types = argument;
      }
    signed_.clear();
    if (dims && types && dims->kind() == JsonKind::array && types->kind() == JsonKind::array) {
      auto shape = dims->children().begin();
      const auto end = dims->children().end();
      for (const JsonValue type : types->children()) {
        if (shape == end) break;
        const std::string_view word = type.text();
        if (!word.empty() && word != "Scalar" && word != "ScalarList" && word != "GenericList") {
          signed_.emplace_back(word == "TensorList" ? "" : word, "");
          append_compact(signed_.back().second, *shape);
        }
        ++shape;
      }
    }
    event.signature = trace_.words.number(trace_signature(trace_.words.word(event.name), signed_));
  }

  /// Sorts events by process, thread and start, longer ones first, and finds the innermost event around each.
  void sort_events() {
    auto& events = trace_.events;
    sort_by(events, [](const HostEvent& event) {
      return std::tuple{event.process, event.thread, event.start, -event.duration, event.index, event.position};
    });
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < events.size(); ++i) {
      if (i > 0 && (events[i].process != events[i - 1].process || events[i].thread != events[i - 1].thread))
        open.clear();
      while (!open.empty() && events[open.back()].end() < events[i].end()) open.pop_back();
      events[i].parent = open.empty() ? HostEvent::kNone : open.back();
      open.push_back(i);
    }
  }

  std::uint32_t around(const LaunchEvent& launch) const {
    const auto& events = trace_.events;
    const auto after =
        std::upper_bound(events.begin(), events.end(), launch, [](const LaunchEvent& one, const HostEvent& other) {
          return std::tuple{one.process, one.thread, one.start} < std::tuple{other.process, other.thread, other.start};
        });
    if (after == events.begin()) return HostEvent::kNone;
    auto at = static_cast<std::uint32_t>(after - events.begin()) - 1;
    if (events[at].process != launch.process || events[at].thread != launch.thread) return HostEvent::kNone;
    while (at != HostEvent::kNone && !(events[at].start <= launch.start && launch.end() <= events[at].end()))
      at = events[at].parent;
    return at;
  }

  void find_callers() {
    std::unordered_map<std::int64_t, std::uint32_t> by_correlation, by_external;
    for (std::uint32_t i = 0; i < trace_.launches.size(); ++i) {
      if (trace_.launches[i].correlation == 0) continue;
      const auto [at, added] = by_correlation.try_emplace(trace_.launches[i].correlation, i);
      if (!added && !trace_.launches[at->second].launches && trace_.launches[i].launches) at->second = i;
    }
    const auto rank = [&](std::uint32_t i) { return std::pair{trace_.events[i].label, trace_.events[i].position}; };
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.events[i].external == 0) continue;
      const auto [at, added] = by_external.try_emplace(trace_.events[i].external, i);
      if (!added && rank(i) < rank(at->second)) at->second = i;
    }
    for (GpuActivity& activity : trace_.activities) {
      const auto launch = by_correlation.find(activity.correlation);
      if (activity.correlation != 0 && launch != by_correlation.end()) {
        activity.launch = launch->second;
        activity.caller = around(trace_.launches[launch->second]);
      }
      if (activity.caller != HostEvent::kNone || activity.external == 0) continue;
      if (const auto event = by_external.find(activity.external); event != by_external.end())
        activity.caller = event->second;
    }
  }

  FindingList findings_;
  std::string_view text_;
  KinetoTrace trace_;
  std::uint32_t position_ = 0;
  std::vector<std::pair<std::string, std::string>> signed_;
};

/// Total length of the union of intervals [start, end).
std::int64_t union_length(std::vector<std::pair<std::int64_t, std::int64_t>> spans) {
  std::ranges::sort(spans);
  std::int64_t length = 0, end = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i == 0 || spans[i].first > end) end = spans[i].first;
    length += std::max<std::int64_t>(0, spans[i].second - end);
    end = std::max(end, spans[i].second);
  }
  return length;
}

bool is_communication_kernel(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower.find("nccl") != std::string::npos || lower.find("rccl") != std::string::npos;
}

}  // namespace

bool is_kineto(std::string_view begin) {
  constexpr std::string_view kFirst[] = {"schemaVersion", "traceEvents", "deviceProperties", "distributedInfo",
                                         "displayTimeUnit"};
  return std::ranges::find(kFirst, first_key(begin)) != std::end(kFirst);
}

KinetoTrace parse_kineto(std::string_view text, const std::string& name) { return KinetoReader{text, name}.read(); }

GpuTimes gpu_times(const KinetoTrace& trace) {
  using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
  std::map<std::uint32_t, std::pair<Spans, Spans>> devices;  // all activities, and those other than communication
  GpuTimes times;
  std::vector<std::int64_t> gaps;
  for (const GpuActivity& activity : trace.activities) {
    auto& [all, computing] = devices[activity.device];
    const bool kernel = activity.kind == GpuActivity::Kind::kernel;
    const bool communication = kernel && is_communication_kernel(trace.words.word(activity.name));
    times.kernels += kernel;
    times.total += Nanoseconds{activity.duration};
    all.emplace_back(activity.start, activity.end());
    if (communication)
      times.communication += Nanoseconds{activity.duration};
    else
      computing.emplace_back(activity.start, activity.end());
    if (activity.launch == HostEvent::kNone)
      ++times.unlaunched;
    else
      gaps.push_back(activity.start - trace.launches[activity.launch].start);
  }
  for (auto& [device, spans] : devices) {
    std::int64_t first = spans.first.front().first, last = spans.first.front().second;
    for (const auto& [start, end] : spans.first) {
      first = std::min(first, start);
      last = std::max(last, end);
    }
    const std::int64_t busy = union_length(std::move(spans.first));
    times.busy += Nanoseconds{busy};
    times.span += Nanoseconds{last - first};
    times.exposed_communication += Nanoseconds{busy - union_length(std::move(spans.second))};
  }
  std::ranges::sort(gaps);
  if (!gaps.empty()) {
    times.least_gap = Nanoseconds{gaps.front()};
    times.median_gap = Nanoseconds{gaps[gaps.size() / 2]};
  }
  return times;
}

std::vector<OutermostOp> outermost_ops(const KinetoTrace& trace) {
  struct Row {
    std::int64_t start = 0, first = 0, last = 0, sum = 0;
    bool any = false;
  };
  std::map<std::uint32_t, Row> rows;
  for (const GpuActivity& activity : trace.activities) {
    if (activity.kind != GpuActivity::Kind::kernel || activity.launch == HostEvent::kNone) continue;
    const LaunchEvent& launch = trace.launches[activity.launch];
    std::uint32_t outermost = HostEvent::kNone;
    for (std::uint32_t at = activity.caller; at != HostEvent::kNone; at = trace.events[at].parent)
      if (!trace.events[at].label) outermost = at;
    if (outermost == HostEvent::kNone) continue;
    const HostEvent& op = trace.events[outermost];
    if (op.thread != launch.thread || !(op.start < launch.start && launch.end() < op.end())) continue;
    Row& row = rows[outermost];
    row.start = op.start;
    row.first = row.any ? std::min(row.first, activity.start) : activity.start;
    row.last = row.any ? std::max(row.last, activity.end()) : activity.end();
    row.sum += activity.duration;
    row.any = true;
  }
  std::vector<std::pair<std::uint32_t, Row>> order(rows.begin(), rows.end());
  sort_by(order, [](const auto& each) { return each.second.start; });
  std::vector<OutermostOp> ops;
  for (const auto& [event, row] : order)
    ops.push_back({trace.name(trace.events[event]), Nanoseconds{row.last - row.first}, Nanoseconds{row.sum}});
  return ops;
}

Profile kineto_profile(const KinetoTrace& trace, const std::string& name, const std::string& kind) {
  std::vector<bool> launches(trace.events.size());
  for (const GpuActivity& activity : trace.activities)
    if (activity.caller != HostEvent::kNone) launches[activity.caller] = true;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> sums;  // by event and device
  for (const GpuActivity& activity : trace.activities) {
    std::uint32_t outermost = HostEvent::kNone;
    for (std::uint32_t at = activity.caller; at != HostEvent::kNone; at = trace.events[at].parent)
      if (launches[at] && !trace.events[at].label) outermost = at;
    if (outermost == HostEvent::kNone) continue;
    sums[{outermost, activity.device}] += activity.duration;
  }
  Profile profile;
  profile.name = name;
  std::map<std::pair<std::uint32_t, std::uint32_t>, OpMeasurement> by_signature;
  for (const auto& [at, time] : sums) {
    const auto& [event, device] = at;
    const HostEvent& host = trace.events[event];
    OpMeasurement& op = by_signature[{device, host.signature}];
    op.type = trace.name(host);
    op.signature = trace.words.word(host.signature);
    op.device = "gpu" + trace.words.word(device);
    op.source = "kineto";
    op.samples.kept.push_back(Nanoseconds{time});
  }
  for (auto& [key, op] : by_signature) {
    if (std::ranges::find(profile.devices, op.device, &ProfiledDevice::name) == profile.devices.end()) {
      const auto named = trace.devices.find(std::strtoll(op.device.c_str() + 3, nullptr, 10));
      ProfiledDevice device;
      device.name = op.device;
      device.device_class = "gpu";
      device.backend = "cuda";
      const std::string product = named != trace.devices.end() ? named->second : "";
      const DeviceKind* known = find_gpu_product(product);
      device.kind = !kind.empty() ? kind : known ? known->name : "";
      if (!product.empty()) device.details["product"] = product;
      profile.devices.push_back(std::move(device));
    }
    profile.ops.push_back(std::move(op));
  }
  if (profile.ops.empty())
    refuse_file(name, "kineto-empty", "the trace has no op that ran anything on a GPU",
                "profile with activities=[CPU, CUDA] and record_shapes=True");
  return profile;
}

}  // namespace trainyard
