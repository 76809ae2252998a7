#include "trainyard/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/report/page_parts.hpp"
#include "trainyard/report/run_text.hpp"

namespace trainyard {
namespace detail {

std::string run_name(const Run& run) { return run.placer.empty() ? "schedule" : run.placer; }

bool is_drawn(const Run& run) { return run.timeline.ops.size() == run.problem.op_count(); }

std::vector<Lane> drawn_lanes(const Run& run) {
  std::vector<Lane> all = lanes(run.problem, run.schedule.placement, run.timeline);
  if (run.summary.fold.devices == 1) return all;
  std::erase_if(all, [&](const Lane& lane) {
    return lane.kind == Lane::Kind::device ? run.summary.images[lane.device] == 0
                                           : lane.spans.empty() && lane.instants.empty();
  });
  for (Lane& lane : all)
    if (lane.kind == Lane::Kind::device) lane.name = device_label(run, lane.device);
  return all;
}

ComparedWith compared_with(const PageInput& input, std::size_t run) {
  const Problem& problem = input.runs[run]->problem;
  return {input.models.empty() ? problem.graph().name() : input.models[run], problem.cluster().name()};
}

std::string title_of(const ComparedWith& group) {
  return fmt::format("{} on {}", group.first.empty() ? "A model" : group.first,
                     group.second.empty() ? "a cluster" : group.second);
}

std::string run_label(const PageInput& input, std::size_t run) {
  const std::string name = run_name(*input.runs[run]);
  for (std::size_t i = 0; i < input.runs.size(); ++i)
    if (compared_with(input, i) != compared_with(input, run))
      return fmt::format("{}: {}", title_of(compared_with(input, run)), name);
  return name;
}

const PageValidation* validation_of(const PageInput& input, std::size_t run) {
  const auto found = std::ranges::find(input.validations, run, &PageValidation::run);
  return found == input.validations.end() ? nullptr : &*found;
}

std::string page_title(const PageInput& input) {
  if (!input.title.empty()) return input.title;
  std::set<std::string_view> models, clusters;
  for (std::size_t i = 0; i < input.runs.size(); ++i) {
    const auto [model, cluster] = compared_with(input, i);
    models.insert(model);
    clusters.insert(cluster);
  }
  const std::string model = fmt::format("{} models", models.size()),
                    cluster = fmt::format("{} clusters", clusters.size());
  const auto [first_model, first_cluster] = compared_with(input, 0);
  return title_of({models.size() > 1 ? model : first_model, clusters.size() > 1 ? cluster : first_cluster});
}

std::string footnote(const Run& run) {
  const LowerBound bound = run.bound();
  std::string sources = run.measured ? "" : sources_text(run.summary) + ".";
  if (!sources.empty()) sources.front() = 'O';
  if (bound.value.count == 0) return sources;
  constexpr std::string_view kHas[] = {"takes less", "has a smaller largest load", "has a smaller sum of completions"};
  return fmt::format("No schedule of {} graph {} than {}{}.{}{}",
                     run.schedule.rewrites.empty() ? "this" : "the " + graph_text(run.schedule),
                     kHas[static_cast<std::size_t>(run.objective)], time_text(bound.value),
                     bound.name.empty() ? "" : fmt::format(" ({})", bound.name), run.measured ? "" : " ", sources);
}

std::size_t best_run(const PageInput& input) {
  const auto rank = [](const Run* run) { return std::pair{!run->summary.fits, run->value()}; };
  return static_cast<std::size_t>(std::ranges::min_element(input.runs, {}, rank) - input.runs.begin());
}

std::size_t run_beneath(const PageInput& input, std::size_t run) {
  const Run& above = *input.runs[run];
  if (run + 1 == input.runs.size() || above.measured) return input.runs.size();
  const Run& next = *input.runs[run + 1];
  return next.measured && &next.problem.graph() == &above.problem.graph() ? run + 1 : input.runs.size();
}

std::size_t opened_run(const PageInput& input) {
  if (!input.validations.empty()) return input.validations.front().run;
  const std::size_t best = best_run(input);
  return best > 0 && run_beneath(input, best - 1) == best ? best - 1 : best;
}

}  // namespace detail

namespace {

std::string facts_line(const PageInput& input) {
  const Problem& problem = input.runs.front()->problem;
  std::string line;
  const auto add_count = [&](std::size_t count, std::string_view word) {
    const std::string text = counted(count, word);
    const std::size_t space = text.find(' ');
    line += fmt::format("<span><b>{}</b>{}</span>", text.substr(0, space), text.substr(space));
  };
  const auto same = [&](const Run* run) { return &run->problem.graph() == &problem.graph(); };
  if (std::ranges::all_of(input.runs, same)) {
    add_count(problem.op_count(), "op");
    add_count(problem.graph().tensor_count(), "tensor");
  }
  const auto as_many = [&](const Run* run) { return run->problem.device_count() == problem.device_count(); };
  if (std::ranges::all_of(input.runs, as_many)) add_count(problem.device_count(), "device");
  for (const PageFact& fact : input.facts)
    line += fmt::format("<span>{} <b>{}</b></span>", detail::html_text(fact.name), detail::html_text(fact.value));
  return line;
}

/// Sentence on whether the page's times are predicted or measured.
std::string_view kind_of(const PageInput& input) {
  const auto measured = std::ranges::count(input.runs, true, &Run::measured);
  return measured == 0                        ? "Predicted, not measured."
         : measured == std::ssize(input.runs) ? "Measured, not predicted."
                                              : "Rows marked as measured are measured; all others are predicted.";
}

void check_input(const PageInput& input) {
  for (const Run* run : input.runs) {
    if (run == nullptr) refuse("no-runs", "a run of the page is null", "give pointers to runs");
    if (!detail::is_drawn(*run)) continue;
    check_placement(run->problem, run->schedule.placement);
    check_transfers(run->problem, run->timeline);
  }
  for (const PageValidation& held : input.validations) {
    check_id("unknown-run", "the run of a validation", held.run, input.runs.size(), "runs");
    for (const double error : {held.total_error, held.structural_error, held.op_time_error, held.link_error,
                               held.total_tolerance, held.structural_tolerance, held.noise_floor})
      if (!std::isfinite(error))
        refuse("range", "an error or a tolerance of a validation is not a finite number",
               "give a share, for example 0.05");
  }
}

}  // namespace

void write_page(const PageInput& input, std::ostream& out) {
  if (input.runs.empty()) refuse("no-runs", "the page has no run to show", "give at least one run");
  check_input(input);
  const std::size_t opened = detail::opened_run(input);
  const Run& best = *input.runs[opened];
  const auto value = [&](std::string_view name) -> std::string {
    if (name == "title") return detail::html_text(detail::page_title(input));
    if (name == "facts") return facts_line(input);
    if (name == "table") return detail::comparison_table(input);
    if (name == "bound") return detail::html_text(detail::footnote(best));
    if (name == "notes")
      return input.notes.empty() ? ""
                                 : fmt::format("<p class=\"bounds soft notes\">{}</p>", detail::html_text(input.notes));
    if (name == "kind") return std::string{kind_of(input)};
    if (name == "noscript_run") return detail::html_text(detail::run_label(input, opened));
    if (name == "drawing") {
      if (!detail::is_drawn(best)) return "<p>This run has no timeline.</p>";
      const std::size_t beneath = detail::run_beneath(input, opened);
      return detail::gantt_svg(best) + (beneath < input.runs.size() && detail::is_drawn(*input.runs[beneath])
                                            ? detail::gantt_svg(*input.runs[beneath])
                                            : "");
    }
    if (name == "data") return detail::page_data(input);
    if (name == "style") return std::string{detail::kPageStyle};
    if (name == "script") return std::string{detail::kPageScript};
    assert(name == "script_hash");
    return std::string{detail::kPageScriptHash};
  };
  // Only the template is searched for "{{", not the inserted values.
  std::string_view rest = detail::kPageHtml;
  for (std::size_t at; (at = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t end = rest.find("}}", at);
    out << rest.substr(0, at) << value(rest.substr(at + 2, end - at - 2));
    rest.remove_prefix(end + 2);
  }
  out << rest;
}

void write_page(std::span<const Run> runs, std::ostream& out, const std::string& title) {
  PageInput page{.title = title, .runs = {}};
  for (const Run& run : runs) page.runs.push_back(&run);
  write_page(page, out);
}

}  // namespace trainyard
