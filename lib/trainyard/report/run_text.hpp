#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard {

/// Rows of a table, by cell.
using TextRows = std::vector<std::vector<std::string>>;

/// The output of `trainyard simulate`: title, table of the run, lower bound, one line for each of the first devices,
/// bottleneck, and the sources of the times. Runs of which only numbers are kept (CompareOptions::keep_runs) have no
/// lines of devices. `title` is problem_title() if empty. `rows` are further rows of two cells, above the lower bound.
std::string run_text(const Run& run, const TextFormat& format = {}, const std::string& title = {},
                     const TextRows& rows = {});
std::ostream& operator<<(std::ostream& out, const Run& run);
/// Mean, deviation and percentiles of steps with noise, as rows of two cells.
TextRows noise_rows(const NoiseResult& noise);

/// "resnet50 on 4xV100: 1,184 ops, 1,402 tensors, 4 devices". For a problem with rewrites, and with `whole` the number
/// of ops before them (0: unknown): "513 ops, rewritten into 1,184, ...".
std::string problem_title(std::string_view model, const Problem& problem, std::size_t whole = 0);

/// The schedule's graph: "given", or the kinds of its rewrites: "split", "replicated+microbatched".
std::string graph_text(const Schedule& schedule);
/// "work", or "work, of the split graph": the argument of the bound, and the graph if the schedule has rewrites.
std::string bound_name(const LowerBound& bound, const Schedule& schedule);
/// "optimal", or the gap as "1.52 %".
std::string gap_text(const Run& run);

/// The bottleneck of the run in two sentences: the gap between its value and the bound, then the busiest device and the
/// most loaded link with its bytes and busy share. `who` is the algorithm, or "the schedule".
std::string sentence(const Run& run, const std::string& who);

/// Shares of the op and transfer time that are measured, fitted or estimated, with the expected error of such times if
/// it is known: "op times rest on: ...".
std::string sources_text(const RunSummary& run);

/// "nvlink-0-1 (gpu0 -> gpu1)": the channel with its ends.
std::string channel_title(const Channel& channel);

/// "gpu0". If the schedule is folded, with the number of devices that it stands for: "gpu0 x512".
std::string device_label(const Run& run, DeviceId device);

/// "31.2 GB of 80.0 GB": peak and capacity of RunSummary::tightest. Only the peak if its capacity is not known.
std::string peak_text(const Problem& problem, const RunSummary& run);

}  // namespace trainyard
