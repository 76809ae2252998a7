#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trainyard/cost/collective_table.hpp"

namespace trainyard {

/// A log of nccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, broadcast_perf), version
/// 2.0 or later.
struct NcclTestsLog {
  CollectiveTable table;  // out-of-place times; the median if a size was run several times
  std::string gpu;        // driver's name of rank 0's GPU: "NVIDIA A100-SXM4-40GB"
};

bool is_nccl_tests(std::string_view text);

/// Reads the text of a log; `name` is the file in messages. Columns are found by the words of the header, ranks and
/// nodes by the lines "# Rank ... on HOST".
///
/// The collective is that of the program if the log names it. Otherwise a reduction operation such as "sum" means an
/// all-reduce or a reduce-scatter, which the ratio of bus bandwidth to bandwidth tells apart; all-gathers, all-to-alls
/// and broadcasts need `kind`. Lines of other programs (NCCL INFO) are skipped.
///
/// Throws InputError with positions: "nccl-tests" for a log without header, ranks, sizes or summary (a truncated log),
/// for a line with another number of columns, and for ranks that do not form one communicator; "number";
/// "wrong-results" if the test found wrong values; "bandwidth" if the printed bandwidth is not bytes over time, or the
/// bus bandwidth does not fit the collective and the ranks; "collective" if the log does not tell its collective, or
/// tells another one than `kind`.
NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name,
                              std::optional<CollectiveKind> kind = std::nullopt);

}  // namespace trainyard
