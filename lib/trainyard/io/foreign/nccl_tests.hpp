#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trainyard/cost/collective_table.hpp"

namespace trainyard {

/// A log of nccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, broadcast_perf), of
/// any version since 2.0.
struct NcclTestsLog {
  CollectiveTable table;  // out of place; sizes that were run several times have their median
  std::string gpu;        // of rank 0, as the driver names it: "NVIDIA A100-SXM4-40GB"
};

bool is_nccl_tests(std::string_view text);

/// Reads the log's text; `name` is the file in messages. Columns are found by the header's words, ranks and nodes by
/// the lines "# Rank ... on HOST". The collective is that of the program's name where the log has it; else an operation
/// such as "sum" is an all-reduce or a reduce-scatter, told apart by bus bandwidth over bandwidth; all-gathers,
/// all-to-alls and broadcasts need `kind`. Lines of other programs in between (NCCL INFO) are passed over.
///
/// Throws InputError with positions: "nccl-tests" for a log without header, ranks, sizes or summary (one that is cut
/// short), for a line of other columns, and for ranks that are not one communicator; "number"; "wrong-results" where
/// the test found wrong values; "bandwidth" where bytes over time is not the bandwidth beside it, or the bus bandwidth
/// not that of the collective and ranks; "collective" where the log does not say which, or another than `kind`.
NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name,
                              std::optional<CollectiveKind> kind = std::nullopt);

}  // namespace trainyard
