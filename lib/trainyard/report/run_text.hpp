#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard {

/// "resnet50 on 4xV100: 1,184 ops, 1,402 tensors, 4 devices"; "513 ops, rewritten into 1,184, ..." of a problem with
/// rewrites that was one of `whole` ops before.
std::string problem_title(std::string_view model, const Problem& problem, std::size_t whole = 0);

/// The graph that a schedule is of: "given", or what its rewrites make of that: "split", "replicated+microbatched".
std::string graph_text(const Schedule& schedule);
/// "work", or "work, of the split graph": the argument, and the graph of the schedule that it bounds.
std::string bound_name(const LowerBound& bound, const Schedule& schedule);
/// "optimal", or the gap as "1.52 %".
std::string gap_text(const Run& run);

/// The bottleneck of the run in one or two sentences: how far its value is from the bound at most, the busiest device,
/// the most loaded link with its bytes and busy share. `who` is the algorithm, or "the schedule".
std::string sentence(const Run& run, const std::string& who);

/// Which share of the time of ops and transfers is measured, fitted or estimated, and how far off such times are:
/// "op times rest on: ...".
std::string sources_text(const RunSummary& run);

/// "nvlink-0-1 (gpu0 -> gpu1)": the channel as a person knows it.
std::string channel_title(const Channel& channel);

/// "gpu0"; of a fold with how many devices it stands for: "gpu0 x512".
std::string device_label(const Run& run, DeviceId device);

/// "31.2 GB of 80.0 GB", or only the peak where the device has no capacity.
std::string peak_text(const Problem& problem, const RunSummary& run);

}  // namespace trainyard
