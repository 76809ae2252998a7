#include "trainyard/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/report/page_parts.hpp"

namespace trainyard {
namespace detail {

std::string html_text(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

RunSummary summarize(const PageRun& run) {
  RunSummary summary;
  const Cluster& cluster = run.problem.cluster();
  std::int64_t busy = 0;
  double fullest = -1;
  for (const DeviceId device : run.problem.devices()) {
    const DeviceUse& use = run.timeline.devices[device];
    busy += use.busy.count;
    summary.exposed = std::max(summary.exposed, use.exposed_communication);
    const auto capacity = cluster.device(device).memory;
    const double peak = static_cast<double>(use.peak.count);
    const double fill = capacity ? peak / static_cast<double>(std::max<std::int64_t>(1, capacity->count)) : 0;
    const bool larger = !summary.fullest.is_none() && use.peak > run.timeline.devices[summary.fullest].peak;
    if (fill > fullest || (fill == fullest && larger)) {
      fullest = fill;
      summary.fullest = device;
    }
  }
  const double time = static_cast<double>(std::max<std::int64_t>(1, run.timeline.makespan.count));
  summary.busy = static_cast<double>(busy) / time / static_cast<double>(run.problem.device_count());
  for (const Transfer& transfer : run.timeline.transfers) summary.moved += transfer.bytes;
  return summary;
}

std::string run_label(const PageInput& input, const PageRun& run) {
  const auto model = [](const PageRun& r) {
    return std::pair<std::string_view, std::string_view>{r.problem.graph().name(), r.problem.cluster().name()};
  };
  const bool several = std::any_of(input.runs.begin(), input.runs.end(),
                                   [&](const PageRun& other) { return model(other) != model(run); });
  return several ? fmt::format("{} on {}: {}", model(run).first, model(run).second, run.placer) : run.placer;
}

std::size_t best_run(const PageInput& input) {
  const auto before = [](const PageRun& a, const PageRun& b) {
    return std::pair{!a.timeline.fits(), a.timeline.makespan} < std::pair{!b.timeline.fits(), b.timeline.makespan};
  };
  return static_cast<std::size_t>(std::min_element(input.runs.begin(), input.runs.end(), before) - input.runs.begin());
}

std::size_t run_beneath(const PageInput& input, const PageRun& run) {
  std::size_t i = 0;
  while (i < input.runs.size() && (run.beneath.empty() || input.runs[i].placer != run.beneath ||
                                   &input.runs[i].problem.graph() != &run.problem.graph()))
    ++i;
  return i;
}

std::size_t opened_run(const PageInput& input) {
  const std::size_t best = best_run(input);
  for (std::size_t i = 0; i < input.runs.size(); ++i)
    if (run_beneath(input, input.runs[i]) == best) return i;
  return best;
}

}  // namespace detail

namespace {

/// 19976 as "19,976".
std::string grouped(std::size_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string facts_line(const PageInput& input) {
  const Problem& problem = input.runs.front().problem;
  std::string line;
  const auto add = [&](std::string_view name, std::string_view value) {
    line += fmt::format("<span><b>{}</b> {}</span>", detail::html_text(value), detail::html_text(name));
  };
  const auto same = [&](const PageRun& run) { return &run.problem.graph() == &problem.graph(); };
  if (std::all_of(input.runs.begin(), input.runs.end(), same)) {
    add(problem.op_count() == 1 ? "op" : "ops", grouped(problem.op_count()));
    add(problem.graph().tensor_count() == 1 ? "tensor" : "tensors", grouped(problem.graph().tensor_count()));
    add(problem.device_count() == 1 ? "device" : "devices", grouped(problem.device_count()));
  }
  for (const PageFact& fact : input.facts)
    line += fmt::format("<span>{} <b>{}</b></span>", detail::html_text(fact.name), detail::html_text(fact.value));
  return line;
}

std::string title_of(const PageInput& input) {
  if (!input.title.empty()) return input.title;
  const Problem& problem = input.runs.front().problem;
  const std::string& model = problem.graph().name();
  const std::string& cluster = problem.cluster().name();
  return fmt::format("{} on {}", model.empty() ? "A model" : model, cluster.empty() ? "a cluster" : cluster);
}

}  // namespace

void write_page(const PageInput& input, std::ostream& out) {
  assert(!input.runs.empty());
  const PageRun& best = input.runs[detail::opened_run(input)];
  const auto value = [&](std::string_view name) -> std::string {
    if (name == "title") return detail::html_text(title_of(input));
    if (name == "facts") return facts_line(input);
    if (name == "table") return detail::comparison_table(input);
    if (name == "noscript_run") return detail::html_text(detail::run_label(input, best));
    if (name == "drawing") {
      const std::size_t beneath = detail::run_beneath(input, best);
      return detail::gantt_svg(best) + (beneath < input.runs.size() ? detail::gantt_svg(input.runs[beneath]) : "");
    }
    if (name == "data") return detail::page_data(input);
    if (name == "style") return std::string{detail::kPageStyle};
    if (name == "script") return std::string{detail::kPageScript};
    assert(name == "script_hash");
    return std::string{detail::kPageScriptHash};
  };
  // Only the template is searched for "{{": what is put in is never looked at again.
  std::string_view rest = detail::kPageHtml;
  for (std::size_t at; (at = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t end = rest.find("}}", at);
    out << rest.substr(0, at) << value(rest.substr(at + 2, end - at - 2));
    rest.remove_prefix(end + 2);
  }
  out << rest;
}

}  // namespace trainyard
